#include "attention/plan.h"

#include <gtest/gtest.h>

#include "attention/assemble.h"
#include "attention/select.h"
#include "base/errors/attention.h"
#include "base/errors/model.h"

namespace quern::attention {
namespace {

ModelConfig llama(std::int64_t kv_heads = 8) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.origin = "/models/llama/config.json";
  config.layers = 32;
  config.heads = 32;
  config.kv_heads = kv_heads;
  config.head_dim = config.v_head_dim = 128;
  return config;
}

ModelConfig deepseek() {
  ModelConfig config;
  config.architecture = "DeepseekV3ForCausalLM";
  config.origin = "/models/deepseek/config.json";
  config.heads = config.kv_heads = 128;
  config.head_dim = 192;
  config.v_head_dim = 128;
  config.kv_lora_rank = 512;
  config.qk_rope_head_dim = 64;
  return config;
}

Question question(const ModelConfig& config, const std::string& hardware,
                  const NeedsOptions& options = {}) {
  Question made;
  made.target = needs_of(config, "/models/m", options);
  made.hardware = hardware_named(hardware);
  return made;
}

NeedsOptions eagle(std::int64_t topk = 1) {
  NeedsOptions options;
  options.speculative_algorithm = "EAGLE";
  options.speculative_topk = topk;
  return options;
}

Plan split(const Question& asked, std::string_view prefill, std::string_view decode) {
  return make_plan(asked, {&find_backend(prefill), "the flag --prefill-attention-backend"},
                   {&find_backend(decode), "the flag --decode-attention-backend"});
}

// The ids of a plan's refusals, as symbols; hardware and build aside.
std::vector<std::string> symbols(const Plan& plan) {
  std::vector<std::string> found;
  for (const Refusal& refusal : plan.refusals) {
    if (refusal.check < Check::kHardware) found.emplace_back(error_entry(refusal.id).symbol);
  }
  return found;
}

std::optional<Error> refused(const Question& asked, const Asked& names) {
  try {
    choose(asked, names);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

using Symbols = std::vector<std::string>;

TEST(Plan, IntersectsPageSizesInsteadOfSnapping) {
  // fa4 wants 128 on SM100, trtllm_mha offers it for grouped queries alone.
  const Plan both = split(question(llama(), "b200"), "fa4", "trtllm_mha");
  EXPECT_EQ(symbols(both), Symbols());
  EXPECT_EQ(both.page_size, 128);
  const Plan none = split(question(llama(32), "b200"), "fa4", "trtllm_mha");
  ASSERT_EQ(symbols(none), Symbols{"PageSizeConflict"});
  EXPECT_EQ(none.refusals.front().message,
            "The backends fa4 and trtllm_mha have no page size in common: fa4 serves 128, "
            "trtllm_mha serves 64, 16, 32.");
  const Plan mla = split(question(deepseek(), "h100"), "flashmla", "cutlass_mla");
  ASSERT_EQ(symbols(mla), Symbols{"PageSizeConflict"});
  EXPECT_EQ(mla.refusals.front().message,
            "The backends flashmla and cutlass_mla have no page size in common: flashmla serves "
            "64, cutlass_mla serves 128.");
}

TEST(Plan, TakesTheDecodeHalfsBestPageSize) {
  EXPECT_EQ(split(question(llama(), "b200"), "flashinfer", "trtllm_mha").page_size, 64);
  EXPECT_EQ(split(question(llama(), "h100"), "fa3", "fa3").page_size, 0);  // any
  NeedsOptions asked;
  asked.page_size = 32;
  EXPECT_EQ(split(question(llama(), "b200", asked), "flashinfer", "trtllm_mha").page_size, 32);
}

TEST(Plan, FindsAKvTypeThatBothHalvesKeep) {
  EXPECT_EQ(split(question(llama(), "arm64"), "torch_native", "cpu_flash").kv_type, KvType::kBF16);
  EXPECT_EQ(split(question(llama(), "b200"), "flashinfer", "trtllm_mha").kv_type, KvType::kBF16);
  const Plan plan = split(question(deepseek(), "b200"), "ascend", "tokenspeed_mla");
  const auto found = symbols(plan);
  EXPECT_NE(std::find(found.begin(), found.end(), "KvTypeUnsupported"), found.end());
}

TEST(Plan, CutedslDecodesBehindTrtllmMla) {
  const Question asked = question(deepseek(), "b200");
  const Plan whole = plan_of(asked, {&find_backend("cutedsl_mla"), "the flag"});
  EXPECT_EQ(whole.prefill.row->info.name, "trtllm_mla");
  EXPECT_EQ(whole.decode.row->info.name, "cutedsl_mla");
  EXPECT_EQ(symbols(whole), Symbols());
  const Plan prefill = split(asked, "cutedsl_mla", "trtllm_mla");
  EXPECT_EQ(prefill.refusals.front().message, "CuteDSL MLA only supports decoding for now");
  EXPECT_EQ(split(asked, "intel_xpu", "flashinfer").refusals.front().id,
            errors::kIntelXpuMlaPrefill);
  const auto xpu = symbols(split(question(deepseek(), "b580"), "triton", "intel_xpu"));
  EXPECT_EQ(xpu, Symbols());
}

TEST(Plan, NamesTheHalfThatThisMachineLacks) {
  const Plan plan = split(question(llama(), "a100"), "flashinfer", "trtllm_mha");
  EXPECT_EQ(plan.refusals.front().id, errors::kTrtllmMhaDecodeSm);
  EXPECT_EQ(split(question(llama(), "a100"), "trtllm_mha", "flashinfer").refusals.front().id,
            errors::kTrtllmMhaPrefillSm);
}

TEST(Plan, JudgesTheDraftModelToo) {
  // An MLA target with a draft that is not: the automatic backend would be inherited.
  Question asked = question(deepseek(), "b200", eagle());
  asked.draft = needs_of(llama(), "/models/draft", eagle());
  const auto error = refused(asked, {.base = "trtllm_mla"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message(), "trtllm_mla backend can only be used with MLA models.");
  const std::string hint(error->field("hint"));
  EXPECT_NE(hint.find("draft model: /models/draft (LlamaForCausalLM), not MLA"), hint.npos) << hint;
  EXPECT_NE(hint.find("chosen by: inherited by the draft model from the flag --attention-backend"),
            hint.npos)
      << hint;
  // A backend of its own for the draft: only page sizes and the build are left to refuse.
  const auto helped = refused(asked, {.base = "trtllm_mla", .draft = "trtllm_mha"});
  ASSERT_TRUE(helped);
  EXPECT_EQ(helped->id(), errors::kBackendNotInBuild);
}

TEST(Plan, ResolvesSpeculationBeforeBackends) {
  const Needs needs = needs_of(llama(), "m", eagle(0));
  EXPECT_EQ(needs.speculative_steps, 5);
  EXPECT_EQ(needs.speculative_topk, 4);
  EXPECT_EQ(needs.draft_tokens, 8);
  const Needs mla = needs_of(deepseek(), "m", eagle(0));
  EXPECT_EQ(mla.speculative_topk, 1);
  EXPECT_EQ(mla.draft_tokens, 4);
  NeedsOptions ngram;
  ngram.speculative_algorithm = "ngram";
  EXPECT_EQ(needs_of(llama(), "m", ngram).speculative_algorithm, "NGRAM");
  EXPECT_EQ(needs_of(llama(), "m", ngram).speculative_topk, 10);
  EXPECT_EQ(
      split(question(llama(), "b200", eagle(0)), "trtllm_mha", "trtllm_mha").refusals.front().id,
      errors::kTrtllmMhaTopk);
  NeedsOptions unknown;
  unknown.speculative_algorithm = "EAGEL";
  try {
    needs_of(llama(), "m", unknown);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kUnknownSpeculativeAlgorithm);
    EXPECT_TRUE(error.field("hint").starts_with("did you mean EAGLE?"));
  }
}

TEST(Plan, LetsThePrefillHalfBeWhereTheDecodeHalfVerifies) {
  Question asked = question(llama(), "h100", eagle());
  EXPECT_EQ(split(asked, "hpc_ops", "fa3").refusals.front().id, errors::kHpcOpsSpeculative);
  EXPECT_EQ(split(asked, "wave", "fa3").refusals.front().id, errors::kEagleUnsupported);
  EXPECT_EQ(split(asked, "fa3", "wave").refusals.front().id, errors::kEagleDecodeUnsupported);
  asked.verify_in_decode = true;
  EXPECT_EQ(symbols(split(asked, "hpc_ops", "fa3")), Symbols());
}

TEST(Plan, RefusesTreesAndVerificationThatBackendsLack) {
  NeedsOptions ngram;
  ngram.speculative_algorithm = "NGRAM";
  ngram.page_size = 16;
  EXPECT_EQ(split(question(llama(), "h100", ngram), "fa3", "fa3").refusals.front().id,
            errors::kNgramTopkPageSize);
  EXPECT_EQ(symbols(split(question(llama(), "h100", ngram), "flashinfer", "flashinfer")),
            Symbols());
  ngram.page_size = 0;
  ngram.speculative_topk = 1;
  const Plan amd = split(question(llama(), "mi300x", ngram), "aiter", "aiter");
  EXPECT_EQ(amd.refusals.front().id, errors::kNgramDevice);
  NeedsOptions deep = eagle();
  deep.speculative_steps = 8;  // nine tokens to verify
  deep.kv_type = KvType::kFp8E4M3;
  EXPECT_EQ(split(question(deepseek(), "b200", deep), "tokenspeed_mla", "tokenspeed_mla")
                .refusals.front()
                .id,
            errors::kTokenspeedVerifyTokens);
}

TEST(Plan, KnowsDeterministicBackends) {
  NeedsOptions options;
  options.deterministic = true;
  const Plan plan = split(question(llama(), "b200", options), "trtllm_mha", "trtllm_mha");
  EXPECT_EQ(plan.refusals.front().message,
            "Currently only fa3, flashinfer, fa4, triton, ascend, intel_xpu, cpu_flash, "
            "torch_native attention backends are supported for deterministic inference, but you "
            "explicitly specified 'trtllm_mha'.");
  EXPECT_EQ(
      split(question(deepseek(), "b200", options), "flashinfer", "flashinfer").refusals.front().id,
      errors::kDeterministicMlaBackend);
  EXPECT_EQ(split(question(deepseek(), "h100", options), "fa4", "fa4").refusals.front().id,
            errors::kDeterministicFa4Mla);
  EXPECT_EQ(symbols(split(question(llama(), "arm64", options), "cpu_flash", "cpu_flash")),
            Symbols());
}

TEST(Plan, KnowsThePairsOfNarrowCaches) {
  NeedsOptions fp4;
  fp4.kv_type = KvType::kNvFp4;
  const auto first = [&](const ModelConfig& config, const std::string& hardware,
                         std::string_view prefill, std::string_view decode) {
    const Plan plan = split(question(config, hardware, fp4), prefill, decode);
    return plan.refusals.empty() ? std::string() : plan.refusals.front().message;
  };
  EXPECT_EQ(first(llama(), "h100", "triton", "triton"),
            "--kv-cache-dtype=nvfp4 requires Blackwell SM100 or SM120. Use "
            "--kv-cache-dtype=fp4_mx_block16 for the block-size-16 FP4 recipe.");
  EXPECT_EQ(first(llama(), "mi300x", "triton", "triton"),
            "KV4 is not tested on non-CUDA platforms.");
  EXPECT_EQ(first(llama(), "b200", "flashinfer", "flashinfer"),
            "KV4 MHA expects attention_backend to be one of triton, torch_native, "
            "flex_attention, trtllm_mha, but got flashinfer");
  EXPECT_EQ(first(deepseek(), "b200", "fa3", "fa3"),
            "KV4 MLA expects attention_backend to be one of cutlass_mla, flashinfer, trtllm_mla, "
            "but got fa3");
  EXPECT_EQ(first(llama(), "b200", "fa4", "trtllm_mha"),
            "KV4 FA4 MHA expects decode_attention_backend to be one of triton, torch_native, "
            "flex_attention, but got trtllm_mha");
  EXPECT_EQ(symbols(split(question(llama(), "b200", fp4), "fa4", "triton")), Symbols());
  EXPECT_EQ(symbols(split(question(llama(), "b200", fp4), "flashinfer", "trtllm_mha")), Symbols());
  fp4.kv_type = KvType::kFp4;
  EXPECT_EQ(first(deepseek(), "b200", "fa4", "fa3").substr(0, 60),
            "KV4 FA4 MLA expects decode_attention_backend to be one of cu");
  fp4.kv_type = KvType::kMxFp8;
  EXPECT_EQ(first(llama(), "h100", "fa4", "fa4"),
            "--kv-cache-dtype mxfp8 requires an SM100+ (Blackwell) GPU for the block-scaled "
            "operands used by the FA4 MXFP8 attention path.");
}

TEST(Plan, KnowsHybridAndDualChunkModels) {
  Question hybrid = question(llama(), "b200");
  hybrid.target.hybrid_gdn = true;
  EXPECT_EQ(split(hybrid, "flashinfer", "flashinfer").refusals.front().message,
            "Only triton, trtllm_mha, fa4 backends are supported on Blackwell GPUs for hybrid GDN "
            "models. Got prefill=flashinfer, decode=flashinfer.");
  EXPECT_EQ(symbols(split(hybrid, "triton", "triton")), Symbols());
  hybrid.hardware = hardware_named("rtx5090");
  EXPECT_EQ(symbols(split(hybrid, "flashinfer", "flashinfer")), Symbols());
  hybrid.hardware = hardware_named("ascend910b");
  EXPECT_EQ(split(hybrid, "triton", "triton").refusals.front().id, errors::kHybridGdnNpu);
  Question both = question(deepseek(), "h100");
  both.target.hybrid_gdn = true;
  EXPECT_EQ(split(both, "fa3", "fa3").refusals.front().id, errors::kHybridGdnMla);
  Question chunked = question(llama(), "h100");
  chunked.target.dual_chunk = true;
  EXPECT_EQ(split(chunked, "fa3", "fa3").refusals.front().message,
            "Dual chunk attention is enabled, but attention backend is set to fa3. Please set it "
            "to 'dual_chunk_flash_attn'.");
  EXPECT_EQ(symbols(split(chunked, "dual_chunk_flash_attn", "dual_chunk_flash_attn")), Symbols());
  EXPECT_EQ(select(chunked).preferred, "dual_chunk_flash_attn");
}

TEST(Plan, SharesHeadsAmongRanks) {
  NeedsOptions options;
  options.tp = 8;
  const Needs needs = needs_of(llama(), "m", options);
  EXPECT_EQ(needs.heads, 4);
  EXPECT_EQ(needs.kv_heads, 1);
  options.tp = 3;
  try {
    needs_of(llama(), "m", options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kTensorParallelHeads);
    EXPECT_EQ(error.message(), "--tp 3 does not divide the 32 attention heads of m.");
  }
}

TEST(Choose, CompletesASplitOfWhichOneHalfIsNamed) {
  const Plan plan = choose(question(llama(), "arm64"), {.prefill = "torch_native"});
  EXPECT_EQ(plan.prefill.row->info.name, "torch_native");
  EXPECT_EQ(plan.decode.row->info.name, "cpu_flash");
  EXPECT_TRUE(plan.split());
  const Plan decode = choose(question(llama(), "arm64"), {.decode = "torch_native"});
  EXPECT_EQ(decode.prefill.row->info.name, "cpu_flash");
  const auto error = refused(question(llama(), "arm64"), {.decode = "flashmla"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message(), "flashmla backend can only be used with MLA models.");
  EXPECT_EQ(error->field("param"), "--decode-attention-backend");
}

TEST(Choose, SaysThatADraftModelIsMissingWhereBackendsAreNotAtFault) {
  Question asked = question(llama(), "h100", eagle());
  asked.draft_missing = true;
  EXPECT_EQ(refused(asked, {.base = "fa3"})->id(), errors::kDraftModelMissing);
  EXPECT_EQ(refused(asked, {.base = "hpc_ops"})->id(), errors::kHpcOpsSpeculative);
  EXPECT_EQ(refused(asked, {})->id(), errors::kDraftModelMissing);
}

TEST(Choose, TellsWhatThisBuildLacksAsSuch) {
  Question asked = question(llama(), "arm64");
  asked.target.families_instead = "OtherForCausalLM";
  const auto error = refused(asked, {.base = "cpu_flash"});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->id(), errors::kModelFamilyNotServed);
  EXPECT_EQ(refused(asked, {})->id(), errors::kNoBackendFits);
}

// SGLang's defaults, by model and machine; this build lacks their kernels.
TEST(Select, PrefersWhatSglangWould) {
  const auto preferred = [](const ModelConfig& config, const std::string& hardware) {
    return select(question(config, hardware)).preferred;
  };
  EXPECT_EQ(preferred(llama(), "h100"), "fa3");
  EXPECT_EQ(preferred(llama(), "b200"), "trtllm_mha");
  EXPECT_EQ(preferred(llama(), "a100"), "flashinfer");
  EXPECT_EQ(preferred(llama(), "rtx5090"), "flashinfer");
  EXPECT_EQ(preferred(llama(), "mi300x"), "aiter");
  EXPECT_EQ(preferred(llama(), "ascend910b"), "ascend");
  EXPECT_EQ(preferred(deepseek(), "h100"), "fa3");
  EXPECT_EQ(preferred(deepseek(), "b200"), "trtllm_mla");
  EXPECT_EQ(preferred(deepseek(), "a100"), "triton");
  EXPECT_EQ(preferred(deepseek(), "rtx5090"), "triton");
  ModelConfig uneven = llama();
  uneven.head_dim = 192;
  EXPECT_EQ(preferred(uneven, "b200"), "fa4");
  ModelConfig sinks = llama();
  sinks.attention_sinks = true;
  EXPECT_EQ(preferred(sinks, "a100"), "triton");
}

TEST(Assemble, RunsContractsOfASimulatedMachine) {
  Question asked = question(llama(), "b200");
  asked.hardware.simulated = true;
  const Plan plan = choose(asked, {.base = "trtllm_mha"});
  Needs needs = asked.target;
  needs.kv_type = plan.kv_type;
  const cache::KvLayout layout = layout_of(plan, needs);
  EXPECT_EQ(layout.page_size, 64);
  EXPECT_EQ(layout.format, cache::PageFormat::kPacked);
  ThreadPool pool(1);
  EXPECT_EQ(assemble(plan, layout, pool)->info().name, "trtllm_mha");
  // Any page size: single tokens, which only the reference layout has.
  const Plan single = choose(asked, {.base = "flashinfer"});
  EXPECT_EQ(layout_of(single, needs).page_size, 1);
  EXPECT_EQ(layout_of(single, needs).format, cache::PageFormat::kRows);
  asked.target.kv_type = KvType::kFp8E4M3;
  needs.kv_type = KvType::kFp8E4M3;
  EXPECT_TRUE(layout_of(choose(asked, {.base = "trtllm_mha"}), needs).fp8_values);
  // hpc_ops wants head dim 128 and groups of 4 or 8: this model has them, a wider group not.
  asked = question(llama(), "h100");
  asked.hardware.simulated = true;
  EXPECT_EQ(choose(asked, {.base = "hpc_ops"}).page_size, 64);
  asked = question(llama(2), "h100");
  asked.hardware.simulated = true;
  EXPECT_EQ(refused(asked, {.base = "hpc_ops"})->id(), errors::kHpcOpsHeads);
  EXPECT_EQ(refused(asked, {.base = "flex_attention"})->id(), errors::kBackendNotInBuild);
}

// A simulated machine has tiles that this one may lack: the contract must run all the same.
TEST(Assemble, RunsIntelAmxOnASimulatedMachine) {
  Question asked = question(llama(), "xeon-amx");
  asked.hardware.simulated = true;
  const Plan plan = choose(asked, {});
  Needs needs = asked.target;
  needs.kv_type = plan.kv_type;
  const cache::KvLayout layout = layout_of(plan, needs);
  EXPECT_EQ(layout.page_size, 32);
  EXPECT_EQ(layout.dtype, DType::kBF16);
  ThreadPool pool(1);
  const auto backend = assemble(plan, layout, pool);
  EXPECT_EQ(backend->info().name, "intel_amx");
  Batch batch;
  const std::vector<std::int32_t> pages = {0};
  batch.token_ids.resize(1);
  batch.sequences = {{0, 1, 1, pages}};
  cache::KvStore store(layout, 1, 1);
  const AttentionLayer layer = {.heads = 32, .kv_heads = 8, .head_dim = 128, .v_head_dim = 128};
  const std::vector<float> q(32 * 128, 0.5f), k(8 * 128, 1.0f), v(8 * 128, 0.25f);
  std::vector<float> out(32 * 128);
  backend->plan(batch);
  backend->forward(layer, q.data(), k.data(), v.data(), store, out.data());
  for (float value : out) ASSERT_EQ(value, 0.25f);
}

TEST(Assemble, SplitsShareOneLayout) {
  const Question asked = question(llama(), "arm64");
  const Plan plan = choose(asked, {.prefill = "torch_native", .decode = "cpu_flash"});
  Needs needs = asked.target;
  needs.kv_type = plan.kv_type;
  EXPECT_EQ(layout_of(plan, needs).format, cache::PageFormat::kPacked);
}

}  // namespace
}  // namespace quern::attention

#include "attention/select.h"

#include <gtest/gtest.h>

#include <set>

#include "base/errors/attention.h"
#include "base/errors/base.h"

namespace quern::attention {
namespace {

ModelConfig model(const std::string& architecture, std::int64_t kv_lora_rank = 0) {
  ModelConfig config;
  config.architecture = architecture;
  config.origin = "/models/m/config.json";
  config.layers = 32;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = config.v_head_dim = 128;
  config.kv_lora_rank = kv_lora_rank;
  config.qk_rope_head_dim = kv_lora_rank ? 64 : 0;
  return config;
}

Question question_of(const Needs& needs, const Hardware& hardware) {
  Question question;
  question.target = needs;
  question.hardware = hardware;
  return question;
}

std::optional<Error> refusal(std::string_view name, const Needs& needs, const Hardware& hardware) {
  try {
    choose(question_of(needs, hardware), {.base = std::string(name)});
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// The words after `label: ` on the hint's line of that label.
std::set<std::string> listed(const Error& error, const std::string& label) {
  const std::string hint(error.field("hint"));
  const size_t begin = hint.find(label + ": ");
  std::set<std::string> names;
  if (begin == hint.npos) return names;
  const size_t start = begin + label.size() + 2;
  std::string line = hint.substr(start, hint.find('\n', start) - start);
  for (size_t comma = 0; !line.empty(); line.erase(0, comma == line.npos ? comma : comma + 2)) {
    comma = line.find(", ");
    names.insert(line.substr(0, comma));
  }
  return names;
}

TEST(Needs, DecidesMlaFromFieldsAndNames) {
  const auto decide = [](const ModelConfig& config) { return needs_of(config, "m", {}); };
  Needs needs = decide(model("DeepseekV3ForCausalLM", 512));
  EXPECT_TRUE(needs.mla);
  EXPECT_EQ(needs.mla_evidence, "kv_lora_rank 512 in config.json");
  EXPECT_EQ(needs.head_dim, 576);
  EXPECT_EQ(needs.v_head_dim, 512);
  needs = decide(model("LlamaForCausalLM"));
  EXPECT_FALSE(needs.mla);
  EXPECT_EQ(needs.mla_evidence, "no kv_lora_rank in config.json");
  needs = decide(model("BrandNewForCausalLM", 256));
  EXPECT_TRUE(needs.mla);
  EXPECT_NE(needs.mla_evidence.find("SGLang does not list"), std::string::npos);
  needs = decide(model("DeepseekV2ForCausalLM"));
  EXPECT_TRUE(needs.mla);
  EXPECT_NE(needs.mla_evidence.find("has no kv_lora_rank"), std::string::npos);
  EXPECT_FALSE(decide(model("DeepseekV4ForCausalLM", 512)).mla);
  EXPECT_FALSE(decide(model("PixtralForConditionalGeneration")).mla);
  EXPECT_TRUE(decide(model("PixtralForConditionalGeneration", 512)).mla);
}

TEST(Needs, ReadsKvTypesInSglangsWords) {
  EXPECT_EQ(parse_kv_type("bf16"), KvType::kBF16);
  EXPECT_EQ(parse_kv_type("bfloat16"), KvType::kBF16);
  EXPECT_EQ(parse_kv_type("float32"), KvType::kF32);
  for (const KvType type :
       {KvType::kAuto, KvType::kF32, KvType::kBF16, KvType::kF16, KvType::kFp8E4M3,
        KvType::kFp8E5M2, KvType::kInt8, KvType::kNvFp4, KvType::kFp4, KvType::kMxFp8}) {
    EXPECT_EQ(parse_kv_type(name_of(type)), type);
  }
  for (const char* word : {"", "BF16", "nosuch"}) {
    try {
      parse_kv_type(word);
      ADD_FAILURE() << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kInvalidFlagValue);
    }
  }
}

TEST(Backends, AreAllOfSglangsNamesOnce) {
  std::set<std::string_view> names;
  for (const BackendRow* row : backends()) {
    EXPECT_TRUE(names.insert(row->info.name).second) << row->info.name;
    EXPECT_FALSE(row->info.machine.empty()) << row->info.name;
    EXPECT_TRUE(row->info.mha || row->info.mla) << row->info.name;
    EXPECT_TRUE(!row->create || (row->info.in_this_build && row->kv_layouts)) << row->info.name;
  }
  for (const char* name : {"triton",
                           "torch_native",
                           "flex_attention",
                           "dsa",
                           "dsv4",
                           "cutlass_mla",
                           "fa3",
                           "fa4",
                           "flashinfer",
                           "flashmla",
                           "trtllm_mla",
                           "cutedsl_mla",
                           "tokenspeed_mla",
                           "trtllm_mha",
                           "dual_chunk_flash_attn",
                           "hpc_ops",
                           "minicpm_flashattn",
                           "minicpm_flashinfer",
                           "aiter",
                           "wave",
                           "intel_amx",
                           "ascend",
                           "intel_xpu",
                           "qsa",
                           "mlu",
                           "cpu_flash"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
  EXPECT_EQ(find_backend("nsa").info.name, "dsa");
  EXPECT_EQ(find_backend("compressed").info.name, "dsv4");
}

TEST(Backends, UnknownNamesGetTheNearest) {
  for (const std::string name : {"trtlm_mha", "TRTLLM_MHA"}) {
    try {
      find_backend(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kInvalidAttentionBackend);
      EXPECT_EQ(error.message(), "Invalid attention backend: " + name);
      EXPECT_TRUE(error.field("hint").starts_with("did you mean trtllm_mha?\n"));
    }
  }
}

TEST(Choose, PrefersTilesThenCpuFlashOnProcessors) {
  const auto chosen = [](const Needs& needs, const char* machine) {
    std::string reason;
    const Plan plan = choose(question_of(needs, hardware_named(machine)), {}, &reason);
    EXPECT_FALSE(plan.split());
    EXPECT_FALSE(reason.empty());
    return plan.decode.row->info.name;
  };
  Needs needs = needs_of(model("LlamaForCausalLM"), "m", {});
  for (const char* name : {"x86-avx2", "xeon-avx512", "zen4", "arm64", "a100"}) {
    EXPECT_EQ(chosen(needs, name), "cpu_flash") << name;
  }
  for (const char* name : {"xeon-amx", "h100"}) EXPECT_EQ(chosen(needs, name), "intel_amx") << name;
  // What keeps f32 or promises equal bits goes before it.
  needs.f32 = true;
  EXPECT_EQ(chosen(needs, "xeon-amx"), "cpu_flash");
  needs.f32 = false;
  needs.kv_type = KvType::kF32;
  EXPECT_EQ(chosen(needs, "xeon-amx"), "cpu_flash");
  needs.kv_type = KvType::kAuto;
  needs.deterministic = true;
  EXPECT_EQ(chosen(needs, "xeon-amx"), "cpu_flash");
}

TEST(Choose, HonoursAnExplicitName) {
  const Needs needs = needs_of(model("LlamaForCausalLM"), "m", {});
  std::string reason;
  const Plan plan =
      choose(question_of(needs, hardware_named("arm64")), {.base = "torch_native"}, &reason);
  EXPECT_EQ(plan.decode.row->info.name, "torch_native");
  EXPECT_EQ(reason, "the flag --attention-backend torch_native");
}

TEST(Choose, TellsModelEvidenceChooserMachineAndWayOut) {
  NeedsOptions options;
  options.page_size = 64;
  const Needs needs = needs_of(model("LlamaForCausalLM"), "/models/m", options);
  const auto error = refusal("flashmla", needs, hardware_named("x86-avx2"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message(), "flashmla backend can only be used with MLA models.");
  EXPECT_EQ(error->field("hint"),
            "model: /models/m (LlamaForCausalLM), not MLA: no kv_lora_rank in config.json\n"
            "chosen by: the flag --attention-backend flashmla\n"
            "hardware: x86-avx2: x86 processor with AVX2, no GPU\n"
            "would work here: cpu_flash, torch_native\n"
            "try: quern serve --model /models/m --attention-backend cpu_flash --page-size 64");
}

TEST(Choose, SuggestsOnlyWhatFitsAndIsInThisBuild) {
  for (const std::string_view machine : hardware_names()) {
    const Hardware hardware = hardware_named(machine);
    for (const ModelConfig& config :
         {model("LlamaForCausalLM"), model("DeepseekV3ForCausalLM", 512)}) {
      const Needs needs = needs_of(config, "m", {});
      for (const BackendRow* row : backends()) {
        const auto error = refusal(row->info.name, needs, hardware);
        if (!error) continue;
        for (const std::string& name : listed(*error, "would work here")) {
          if (name == "none") continue;
          const BackendInfo& info = find_backend(name).info;
          EXPECT_TRUE(info.in_this_build) << name;
          EXPECT_TRUE(validate(info, needs, hardware).empty()) << name;
        }
        for (const std::string& name : listed(*error, "would fit, but not in this build")) {
          EXPECT_EQ(validate(find_backend(name).info, needs, hardware).front().id,
                    errors::kBackendNotInBuild);
        }
      }
    }
  }
}

TEST(Choose, SaysWhereNothingFits) {
  Needs needs = needs_of(model("BartForConditionalGeneration"), "m", {});
  needs.encoder_decoder = true;
  const auto error = refusal("", needs, hardware_named("h100"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->id(), errors::kNoBackendFits);
  EXPECT_EQ(listed(*error, "would work here"), std::set<std::string>{"none"});
  EXPECT_TRUE(listed(*error, "would fit, but not in this build").count("fa3"));
}

}  // namespace
}  // namespace quern::attention

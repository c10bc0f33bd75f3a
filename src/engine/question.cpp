#include "engine/question.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/errors/base.h"
#include "core/dtype.h"
#include "model/model.h"

namespace quern::engine {
namespace {

constexpr std::string_view kModes[] = {"", "prefill", "decode"};

attention::Needs judged_needs(const ModelConfig& config, const std::string& path,
                              const attention::NeedsOptions& asked) {
  attention::Needs needs = attention::needs_of(config, path, asked);
  if (!model::family_of(config)) needs.families_instead = model::served_architectures();
  return needs;
}

}  // namespace

attention::NeedsOptions needs_options(const EngineOptions& options) {
  attention::NeedsOptions asked;
  asked.kv_type = attention::parse_kv_type(options.kv_cache_dtype);
  asked.page_size = options.page_size;
  asked.speculative_algorithm = options.speculative_algorithm;
  asked.speculative_steps = options.speculative_num_steps;
  asked.speculative_topk = options.speculative_eagle_topk;
  asked.draft_tokens = options.speculative_num_draft_tokens;
  asked.deterministic = options.enable_deterministic_inference;
  asked.tp = options.tp;
  const auto& mode = options.speculative_attention_mode;
  if (std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes)) {
    throw Error(errors::kInvalidFlagValue, {{"flag", "--speculative-attention-mode"},
                                            {"value", mode},
                                            {"allowed", "prefill, decode"},
                                            {"param", "--speculative-attention-mode"}});
  }
  for (const std::string* name :
       {&options.attention_backend, &options.prefill_attention_backend,
        &options.decode_attention_backend, &options.speculative_draft_attention_backend}) {
    if (!name->empty()) attention::find_backend(*name);
  }
  return asked;
}

attention::Question question_of(const EngineOptions& options, const ModelConfig& target,
                                attention::Hardware hardware) {
  const attention::NeedsOptions asked = needs_options(options);
  attention::Question question;
  question.target = judged_needs(target, options.model_path, asked);
  question.target.f32 = parse_float_dtype(options.dtype) == DType::kF32;
  question.hardware = std::move(hardware);
  question.verify_in_decode = options.speculative_attention_mode == "decode";
  const std::string& algorithm = question.target.speculative_algorithm;
  if (algorithm.empty() || algorithm == "NGRAM") return question;
  if (!options.speculative_draft_model_path.empty()) {
    const std::string& path = options.speculative_draft_model_path;
    question.draft = judged_needs(checkpoint::read_metadata(path).config, path, asked);
  } else if (target.nextn_layers > 0 && algorithm.starts_with("EAGLE")) {
    question.draft = question.target;  // its own multi-token-prediction layers
  } else {
    question.draft_missing = true;
  }
  return question;
}

attention::Asked asked_backends(const EngineOptions& options) {
  return {.base = options.attention_backend,
          .prefill = options.prefill_attention_backend,
          .decode = options.decode_attention_backend,
          .draft = options.speculative_draft_attention_backend};
}

attention::KvType cache_type(const attention::Plan& plan, const attention::Needs& needs) {
  using attention::KvType;
  const bool asked = needs.kv_type != KvType::kAuto;
  if (asked || !needs.f32 || plan.kv_type != KvType::kBF16) return plan.kv_type;
  for (const attention::Half* half : {&plan.prefill, &plan.decode}) {
    const auto types = attention::kv_types_of(half->row->info, needs);
    if (std::find(types.begin(), types.end(), KvType::kF32) == types.end()) return plan.kv_type;
  }
  return KvType::kF32;
}

}  // namespace quern::engine

#include "engine/check.h"

#include <fmt/format.h>

#include <utility>

#include "checkpoint/checkpoint.h"
#include "engine/question.h"
#include "model/model.h"

namespace quern::engine {
namespace {

struct Asked {
  checkpoint::Metadata metadata;
  attention::Question question;
};

Asked asked_for(const CheckOptions& options) {
  needs_options(options.engine);  // mistyped words first: they cost no I/O
  const std::string& simulated = options.engine.simulate_hardware;
  const std::string& name = options.hardware.empty() ? simulated : options.hardware;
  attention::Hardware hardware =
      name.empty() ? attention::probe_hardware() : attention::hardware_named(name);
  hardware.simulated = !simulated.empty();
  Asked asked{.metadata = checkpoint::read_metadata(options.engine.model_path), .question = {}};
  asked.question = question_of(options.engine, asked.metadata.config, std::move(hardware));
  return asked;
}

// "30 of 62 layers" where not all are of a kind.
std::string share_of(const ModelConfig& config, LayerKind kind) {
  const std::int64_t count = config.layers_of(kind);
  return count == config.layers ? "all layers"
                                : fmt::format("{} of {} layers", count, config.layers);
}

std::vector<std::string> facts_of(const ModelConfig& config) {
  std::vector<std::string> facts;
  const auto add = [&](bool present, std::string words) {
    if (present) facts.push_back(std::move(words));
  };
  add(true, fmt::format("{} layers, {} query heads, {} key-value heads, head dim {}", config.layers,
                        config.heads, config.kv_heads, config.head_dim));
  add(config.encoder_decoder, "attends to an encoder");
  add(config.layers_of(LayerKind::kCross) > 0,
      "cross attention in " + share_of(config, LayerKind::kCross));
  add(config.sliding_window > 0, fmt::format("window of {} tokens in {}", config.sliding_window,
                                             share_of(config, LayerKind::kWindow)));
  add(config.layers_of(LayerKind::kChunked) > 0,
      fmt::format("chunks of {} tokens in {}", config.attention_chunk,
                  share_of(config, LayerKind::kChunked)));
  add(config.layers_of(LayerKind::kLinear) > 0,
      "linear attention in " + share_of(config, LayerKind::kLinear));
  add(config.attention_sinks, "attention sinks");
  add(config.attention_soft_cap > 0, fmt::format("logits capped at {}", config.attention_soft_cap));
  add(config.dual_chunk_attention, "dual chunk attention");
  add(config.index_topk > 0, fmt::format("sparse attention over {} tokens", config.index_topk));
  add(config.experts > 0, fmt::format("{} experts, {} for a token, in {} layers", config.experts,
                                      config.experts_per_token, config.moe_layers()));
  add(config.nextn_layers > 0, fmt::format("{} multi-token-prediction layer{}", config.nextn_layers,
                                           config.nextn_layers == 1 ? "" : "s"));
  add(!config.quantization.method.empty(), "stored as " + config.quantization.method);
  return facts;
}

// What would be run: a backend that fits, of a model whose family serves all that it has.
attention::Plan plan_of(const Asked& asked, const EngineOptions& options) {
  const attention::Plan plan = attention::choose(asked.question, asked_backends(options));
  const ModelConfig& config = asked.metadata.config;
  if (const model::Family* family = model::family_of(config)) family->check(config);
  return plan;
}

std::string name_of(const attention::Half& half) {
  return half.row ? std::string(half.row->info.name) : std::string();
}

void describe_plan(const attention::Plan& plan, const attention::Needs& needs,
                   CheckReport* report) {
  report->prefill = name_of(plan.prefill);
  report->decode = name_of(plan.decode);
  report->draft_prefill = name_of(plan.draft_prefill);
  report->draft_decode = name_of(plan.draft_decode);
  report->page_size = plan.page_size;
  report->kv_type = attention::name_of(cache_type(plan, needs));
}

}  // namespace

CheckReport check(const CheckOptions& options) {
  const Asked asked = asked_for(options);
  const attention::Question& question = asked.question;
  const attention::Choice choice =
      attention::select(question, options.engine.speculative_draft_attention_backend);
  CheckReport report;
  report.model = question.target.model;
  report.architecture = question.target.architecture;
  report.mla = question.target.mla;
  report.mla_evidence = question.target.mla_evidence;
  report.facts = facts_of(asked.metadata.config);
  attention::KvType kept = question.target.kv_type;
  if (question.target.f32 && choice.plan.decode.row)
    kept = cache_type(choice.plan, question.target);
  report.memory = estimate_memory(asked.metadata.config, question.hardware, kept, options.engine.tp,
                                  options.engine.context_length, asked.metadata.weight_bytes,
                                  options.engine.no_repack);
  report.hardware = question.hardware.name;
  report.hardware_description = question.hardware.description;
  report.reason = choice.reason;
  report.preferred = choice.preferred;
  report.choice = name_of(choice.plan.decode);
  for (const attention::Verdict& verdict : choice.verdicts) {
    CheckVerdict row{std::string(verdict.row->info.name), {}, std::string(verdict.row->info.note)};
    for (const attention::Refusal& refusal : verdict.refusals) {
      row.refusals.push_back(
          {error_entry(refusal.id).id, refusal.message, refusal.wanted, refusal.offered});
    }
    report.verdicts.push_back(std::move(row));
  }
  try {
    describe_plan(plan_of(asked, options.engine), question.target, &report);
  } catch (const Error& refused) {
    report.refused = refused;
  }
  return report;
}

std::string require_backend(const CheckOptions& options) {
  return name_of(plan_of(asked_for(options), options.engine).decode);
}

}  // namespace quern::engine

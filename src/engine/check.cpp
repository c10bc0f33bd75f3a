#include "engine/check.h"

#include "attention/select.h"
#include "checkpoint/checkpoint.h"

namespace quern::engine {
namespace {

struct Question {
  attention::Needs needs;
  attention::Hardware hardware;
};

// The flags are read before the model, so that a mistyped one costs no I/O.
Question question_of(const CheckOptions& options) {
  attention::NeedsOptions asked;
  asked.kv_type = attention::parse_kv_type(options.engine.kv_cache_dtype);
  asked.page_size = options.engine.page_size;
  asked.speculative_algorithm = options.engine.speculative_algorithm;
  asked.speculative_topk = options.engine.speculative_eagle_topk;
  Question question;
  question.hardware = options.hardware.empty() ? attention::probe_hardware()
                                               : attention::hardware_named(options.hardware);
  if (!options.engine.attention_backend.empty())
    attention::find_backend(options.engine.attention_backend);
  const checkpoint::Metadata metadata = checkpoint::read_metadata(options.engine.model_path);
  question.needs = attention::needs_of(metadata.config, options.engine.model_path, asked);
  return question;
}

}  // namespace

CheckReport check(const CheckOptions& options) {
  const auto [needs, hardware] = question_of(options);
  const attention::Choice choice = attention::select(needs, hardware);
  CheckReport report;
  report.model = needs.model;
  report.architecture = needs.architecture;
  report.mla = needs.mla;
  report.mla_evidence = needs.mla_evidence;
  report.hardware = hardware.name;
  report.hardware_description = hardware.description;
  report.reason = choice.reason;
  if (choice.row) report.choice = choice.row->info.name;
  for (const attention::Verdict& verdict : choice.verdicts) {
    CheckVerdict row{std::string(verdict.row->info.name), {}, std::string(verdict.row->info.note)};
    for (const attention::Refusal& refusal : verdict.refusals) {
      row.refusals.push_back(
          {error_entry(refusal.id).id, refusal.message, refusal.wanted, refusal.offered});
    }
    report.verdicts.push_back(std::move(row));
  }
  return report;
}

std::string require_backend(const CheckOptions& options) {
  const auto [needs, hardware] = question_of(options);
  return std::string(
      attention::choose(options.engine.attention_backend, needs, hardware, nullptr).info.name);
}

}  // namespace quern::engine

#include "engine/check.h"

#include "checkpoint/checkpoint.h"
#include "engine/question.h"

namespace quern::engine {
namespace {

attention::Question question_for(const CheckOptions& options) {
  needs_options(options.engine);  // mistyped words first: they cost no I/O
  const std::string& simulated = options.engine.simulate_hardware;
  const std::string& name = options.hardware.empty() ? simulated : options.hardware;
  attention::Hardware hardware =
      name.empty() ? attention::probe_hardware() : attention::hardware_named(name);
  hardware.simulated = !simulated.empty();
  const checkpoint::Metadata metadata = checkpoint::read_metadata(options.engine.model_path);
  return question_of(options.engine, metadata.config, std::move(hardware));
}

std::string name_of(const attention::Half& half) {
  return half.row ? std::string(half.row->info.name) : std::string();
}

void describe_plan(const attention::Plan& plan, CheckReport* report) {
  report->prefill = name_of(plan.prefill);
  report->decode = name_of(plan.decode);
  report->draft_prefill = name_of(plan.draft_prefill);
  report->draft_decode = name_of(plan.draft_decode);
  report->page_size = plan.page_size;
  report->kv_type = attention::name_of(plan.kv_type);
}

}  // namespace

CheckReport check(const CheckOptions& options) {
  const attention::Question question = question_for(options);
  const attention::Choice choice =
      attention::select(question, options.engine.speculative_draft_attention_backend);
  CheckReport report;
  report.model = question.target.model;
  report.architecture = question.target.architecture;
  report.mla = question.target.mla;
  report.mla_evidence = question.target.mla_evidence;
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
    describe_plan(attention::choose(question, asked_backends(options.engine)), &report);
  } catch (const Error& refused) {
    report.refused = refused;
  }
  return report;
}

std::string require_backend(const CheckOptions& options) {
  const attention::Question question = question_for(options);
  return name_of(attention::choose(question, asked_backends(options.engine)).decode);
}

}  // namespace quern::engine

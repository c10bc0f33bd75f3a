#include "attention/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "attention/hint.h"
#include "base/errors/attention.h"

namespace quern::attention {
namespace {

bool sm_between(const Hardware& hardware, int low, int high) {
  return hardware.sm && *hardware.sm >= low && *hardware.sm <= high;
}

// SGLang's choices where no flag names a backend, in order; the first that holds and that nothing
// refuses is taken. Backends of their own models go before these, the rest of the table after them.
struct Default {
  std::string_view name;
  bool (*when)(const Needs&, const Hardware&);
  std::string_view because;
};
constexpr Default kDefaults[] = {
    {"ascend", [](const Needs&, const Hardware& hw) { return hw.ascend; }, "an Ascend NPU"},
    {"aiter", [](const Needs&, const Hardware& hw) { return hw.amd_gpu; }, "an AMD GPU"},
    {"intel_xpu", [](const Needs&, const Hardware& hw) { return hw.intel_gpu; }, "an Intel GPU"},
    {"trtllm_mla",
     [](const Needs& needs, const Hardware& hw) {
       return needs.mla && sm_between(hw, 100, 109) && needs.architecture.starts_with("DeepseekV3");
     },
     "a DeepSeek-V3 class model on SM100"},
    {"flashinfer",
     [](const Needs& needs, const Hardware& hw) { return needs.mla && sm_between(hw, 100, 109); },
     "an MLA model on SM100"},
    {"fa3", [](const Needs&, const Hardware& hw) { return sm_between(hw, 90, 90); },
     "a Hopper GPU"},
    {"trtllm_mha",
     [](const Needs& needs, const Hardware& hw) { return !needs.mla && sm_between(hw, 100, 109); },
     "an MHA model on SM100"},
    {"fa4",
     [](const Needs& needs, const Hardware& hw) { return !needs.mla && sm_between(hw, 100, 109); },
     "an MHA model on SM100 that trtllm_mha does not serve"},
    {"flashinfer",
     [](const Needs& needs, const Hardware& hw) { return !needs.mla && hw.sm.has_value(); },
     "an MHA model on an NVIDIA GPU"},
    {"triton", [](const Needs&, const Hardware& hw) { return hw.sm || hw.amd_gpu || hw.intel_gpu; },
     "the GPU backend that serves the most"},
    {"intel_amx", [](const Needs& needs, const Hardware& hw) { return hw.amx && !needs.f32; },
     "a processor with AMX tiles"},
    {"cpu_flash", [](const Needs&, const Hardware&) { return true; },
     "the fastest backend for processors"},
};

struct Candidate {
  const BackendRow* row;
  std::string because;
};

// Every backend once, in the order of the automatic choice.
std::vector<Candidate> candidates(const Question& question) {
  std::vector<Candidate> order;
  const auto add = [&](const BackendRow* row, std::string_view because) {
    for (const Candidate& other : order) {
      if (other.row == row) return;
    }
    order.push_back({row, std::string(because)});
  };
  const auto rows = backends();
  for (const BackendRow* row : rows) {
    const auto& own = row->info.architectures;
    const bool named = std::find(own.begin(), own.end(), question.target.architecture) != own.end();
    if (named || (row->info.dual_chunk && question.target.dual_chunk)) {
      add(row, "the backend of this very model");
    }
  }
  for (const Default& rule : kDefaults) {
    if (rule.when(question.target, question.hardware)) add(&find_backend(rule.name), rule.because);
  }
  for (const BackendRow* row : rows) add(row, "the first of the table that fits");
  return order;
}

bool lacks_only_build(const std::vector<Refusal>& refusals) {
  return !refusals.empty() && refusals.front().check == Check::kBuild;
}

Half draft_half(std::string_view name) {
  if (name.empty()) return {};
  constexpr std::string_view flag = "--speculative-draft-attention-backend";
  return {&find_backend(name, flag), fmt::format("the flag {} {}", flag, name)};
}

// The half that a refusal speaks of, for who set it and by which flag.
const Half& half_of(const Plan& plan, const Refusal& refusal) {
  const auto is = [&](const Half& half) {
    return half.row && half.row->info.name == refusal.backend;
  };
  if (refusal.draft) return is(plan.draft_decode) ? plan.draft_decode : plan.draft_prefill;
  return is(plan.decode) ? plan.decode : plan.prefill;
}

std::string flag_in(const std::string& chosen_by) {
  const size_t begin = chosen_by.find("--");
  if (begin == chosen_by.npos) return "--attention-backend";
  return chosen_by.substr(begin, chosen_by.find(' ', begin) - begin);
}

[[noreturn]] void refuse(const Question& question, const Plan& plan, const Choice& choice) {
  const Refusal& first = plan.refusals.front();
  const Half& half = half_of(plan, first);
  std::vector<ErrorField> fields = {{"param", flag_in(half.chosen_by)}};
  fields.insert(fields.end(), first.fields.begin(), first.fields.end());
  fields.emplace_back("hint", hint_of(question, first.draft, half.chosen_by, choice));
  throw Error(first.id, std::move(fields));
}

// Told only where the backends are not at fault.
[[noreturn]] void refuse_missing_draft(const Question& question) {
  throw Error(errors::kDraftModelMissing, {{"algorithm", question.target.speculative_algorithm},
                                           {"param", "--speculative-draft-model-path"}});
}

// The other half of a split of which the flags name one.
Plan complete(const Question& question, const Half& given, bool given_is_decode,
              const Half& draft) {
  const BackendInfo& info = given.row->info;
  std::optional<Plan> best;
  const auto plan_with = [&](const Half& other) {
    return given_is_decode ? make_plan(question, other, given, draft)
                           : make_plan(question, given, other, draft);
  };
  if (given_is_decode && question.target.mla && !info.mla_prefill_partner.empty()) {
    return plan_of(question, given, draft);
  }
  for (const Candidate& candidate : candidates(question)) {
    Plan plan = plan_with({candidate.row, "the default: " + candidate.because});
    if (plan.fits()) return plan;
    // Of plans that all fail, the one whose fault is the named half's tells the most.
    const bool named = plan.refusals.front().backend == info.name;
    if (!best || (named && best->refusals.front().backend != info.name)) best = std::move(plan);
  }
  return *best;
}

}  // namespace

Choice select(const Question& question, std::string_view draft) {
  Choice choice;
  const Half draft_choice = draft_half(draft);
  for (const Candidate& candidate : candidates(question)) {
    Plan plan =
        plan_of(question, {candidate.row, "the default: " + candidate.because}, draft_choice);
    choice.verdicts.push_back({candidate.row, plan.refusals});
    if (choice.plan.decode.row) continue;
    if (plan.fits()) {
      choice.reason = candidate.because;
      choice.plan = std::move(plan);
    } else if (choice.preferred.empty() && lacks_only_build(plan.refusals)) {
      choice.preferred = candidate.row->info.name;
    }
  }
  if (!choice.plan.decode.row) choice.reason = "no backend of this build fits";
  if (!choice.preferred.empty()) {
    choice.reason +=
        fmt::format(" (before it stands {}, which this build lacks)", choice.preferred);
  }
  return choice;
}

Plan choose(const Question& question, const Asked& asked, std::string* reason) {
  std::vector<std::string> notes;
  const auto half = [&](std::string_view flag, const std::string& name) -> Half {
    if (name.empty()) return {};
    std::string note;
    const BackendRow& row = find_backend(name, flag, &note);
    if (!note.empty()) notes.push_back(std::move(note));
    return {&row, fmt::format("the flag {} {}", flag, name)};
  };
  const Half base = half("--attention-backend", asked.base);
  Half prefill = half("--prefill-attention-backend", asked.prefill);
  Half decode = half("--decode-attention-backend", asked.decode);
  const Half draft = draft_half(asked.draft);

  if (!base.row && !prefill.row && !decode.row) {
    Choice choice = select(question, asked.draft);
    if (!choice.plan.decode.row) {
      if (question.draft_missing && !choice.preferred.empty()) refuse_missing_draft(question);
      throw Error(errors::kNoBackendFits,
                  {{"model", question.target.model},
                   {"hardware", question.hardware.description},
                   {"param", "--attention-backend"},
                   {"hint", hint_of(question, false, "nobody; the default is the first that fits",
                                    choice)}});
    }
    if (reason) *reason = choice.reason;
    return std::move(choice.plan);
  }
  Plan plan;
  if (!prefill.row && !decode.row) {
    plan = plan_of(question, base, draft);
  } else if (base.row || (prefill.row && decode.row)) {
    if (!prefill.row) prefill = base;
    if (!decode.row) decode = base;
    plan = make_plan(question, prefill, decode, draft);
  } else {
    plan = complete(question, decode.row ? decode : prefill, decode.row != nullptr, draft);
  }
  if (question.draft_missing && (plan.fits() || lacks_only_build(plan.refusals))) {
    refuse_missing_draft(question);
  }
  if (!plan.fits()) refuse(question, plan, select(question, asked.draft));
  if (reason) {
    *reason = plan.split() ? fmt::format("prefill: {}; decode: {}", plan.prefill.chosen_by,
                                         plan.decode.chosen_by)
                           : plan.decode.chosen_by;
  }
  plan.notes = std::move(notes);
  return plan;
}

}  // namespace quern::attention

#include "attention/hint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "attention/select.h"

namespace quern::attention {
namespace {

// The rows that nothing refuses, and those that would fit had this build their kernels.
struct Fitting {
  std::vector<std::string_view> here, elsewhere;
};

Fitting fitting(const Choice& choice) {
  Fitting found;
  for (const Verdict& verdict : choice.verdicts) {
    if (verdict.refusals.empty()) {
      found.here.push_back(verdict.row->info.name);
    } else if (verdict.refusals.front().check == Check::kBuild) {
      found.elsewhere.push_back(verdict.row->info.name);
    }
  }
  return found;
}

// The flags that the backend was judged by, for a command line to paste.
std::string flags_of(const Question& question) {
  const Needs& needs = question.target;
  std::string flags;
  if (needs.page_size > 0) flags += fmt::format(" --page-size {}", needs.page_size);
  if (needs.kv_type != KvType::kAuto) {
    flags += fmt::format(" --kv-cache-dtype {}", name_of(needs.kv_type));
  }
  if (!needs.speculative_algorithm.empty()) {
    flags += fmt::format(" --speculative-algorithm {} --speculative-eagle-topk {}",
                         needs.speculative_algorithm, needs.speculative_topk);
    if (question.draft && question.draft->model != needs.model) {
      flags += " --speculative-draft-model-path " + question.draft->model;
    }
  }
  if (needs.deterministic) flags += " --enable-deterministic-inference";
  if (question.hardware.simulated) flags += " --simulate-hardware " + question.hardware.name;
  return flags;
}

// Of the flags, one kind at a time is given up until something fits; null where nothing helps.
struct Relaxed {
  Question question;
  std::string_view without;  // the flags given up
  std::string_view backend;
};

std::optional<Relaxed> relax(const Question& question) {
  std::vector<Relaxed> tries;
  if (question.target.page_size > 0) {
    tries.push_back({question, "--page-size", {}});
    tries.back().question.target.page_size = 0;
  }
  if (question.target.kv_type != KvType::kAuto) {
    tries.push_back({question, "--kv-cache-dtype", {}});
    tries.back().question.target.kv_type = KvType::kAuto;
  }
  if (question.target.deterministic) {
    tries.push_back({question, "--enable-deterministic-inference", {}});
    tries.back().question.target.deterministic = false;
  }
  if (!question.target.speculative_algorithm.empty()) {
    tries.push_back({question, "speculative decoding", {}});
    tries.back().question.target.speculative_algorithm.clear();
    tries.back().question.target.speculative_topk = 0;
    tries.back().question.draft.reset();
  }
  for (Relaxed& attempt : tries) {
    const Choice choice = select(attempt.question);
    if (!choice.plan.decode.row) continue;
    attempt.backend = choice.plan.decode.row->info.name;
    return attempt;
  }
  return std::nullopt;
}

std::string command(const Question& question, std::string_view backend) {
  return fmt::format("quern serve --model {} --attention-backend {}{}", question.target.model,
                     backend, flags_of(question));
}

std::string describe(const Needs& needs) {
  return fmt::format("{} ({}), {}: {}", needs.model, needs.architecture,
                     needs.mla ? "MLA" : "not MLA", needs.mla_evidence);
}

}  // namespace

std::string hint_of(const Question& question, bool draft, const std::string& chosen_by,
                    const Choice& choice) {
  std::string hint = fmt::format("model: {}\n", describe(question.target));
  if (draft && question.draft) hint += fmt::format("draft model: {}\n", describe(*question.draft));
  hint += fmt::format("chosen by: {}\n", chosen_by);
  hint += fmt::format("hardware: {}: {}\n", question.hardware.name, question.hardware.description);
  const Fitting found = fitting(choice);
  hint += fmt::format("would work here: {}",
                      found.here.empty() ? "none" : fmt::format("{}", fmt::join(found.here, ", ")));
  if (!found.elsewhere.empty()) {
    hint += fmt::format("\nwould fit, but not in this build: {}", fmt::join(found.elsewhere, ", "));
  }
  if (!found.here.empty()) {
    hint += "\ntry: " + command(question, found.here.front());
  } else if (const auto relaxed = relax(question)) {
    hint += fmt::format("\ntry, without {}: {}", relaxed->without,
                        command(relaxed->question, relaxed->backend));
  }
  return hint;
}

}  // namespace quern::attention

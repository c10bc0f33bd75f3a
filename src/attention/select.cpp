#include "attention/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "attention/backends/cpu_flash.h"
#include "attention/backends/infos.h"
#include "attention/backends/known.h"
#include "attention/backends/torch_native.h"
#include "base/errors/attention.h"
#include "base/nearest.h"

namespace quern::attention {
namespace {

std::vector<BackendRow> make_table() {
  std::vector<BackendRow> rows;
  for (const BackendInfo& info : known_gpu_backends()) rows.push_back({.info = info});
  rows.push_back({kCpuFlashInfo, make_cpu_flash, cpu_flash_layouts});
  rows.push_back({.info = known_intel_amx()});
  rows.push_back({kTorchNativeInfo, make_torch_native, torch_native_layouts});
  return rows;
}

// SGLang's old names.
std::string_view without_alias(std::string_view name) {
  if (name == "nsa") return "dsa";
  if (name == "compressed") return "dsv4";
  return name;
}

std::vector<std::string> names_of(const std::vector<const BackendRow*>& rows) {
  std::vector<std::string> names;
  for (const BackendRow* row : rows) names.emplace_back(row->info.name);
  return names;
}

std::string join(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// The rows that nothing refuses, and those that would fit had this build their kernels.
struct Fitting {
  std::vector<const BackendRow*> here, elsewhere;
};

Fitting fitting(const Choice& choice) {
  Fitting found;
  for (const Verdict& verdict : choice.verdicts) {
    if (verdict.refusals.empty()) {
      found.here.push_back(verdict.row);
    } else if (verdict.refusals.front().id == errors::kBackendNotInBuild) {
      found.elsewhere.push_back(verdict.row);
    }
  }
  return found;
}

// The flags that the backend was judged by, for a command line to paste.
std::string flags_of(const Needs& needs) {
  std::string flags;
  if (needs.page_size > 0) flags += fmt::format(" --page-size {}", needs.page_size);
  if (needs.kv_type != KvType::kAuto) {
    flags += fmt::format(" --kv-cache-dtype {}", name_of(needs.kv_type));
  }
  if (!needs.speculative_algorithm.empty()) {
    flags += " --speculative-algorithm " + needs.speculative_algorithm;
  }
  if (needs.speculative_topk > 0) {
    flags += fmt::format(" --speculative-eagle-topk {}", needs.speculative_topk);
  }
  return flags;
}

// What the message of a refusal leaves open: the model, the chooser, the machine, the way out.
std::string hint_of(std::string_view asked, const Needs& needs, const Hardware& hardware,
                    const Choice& choice) {
  std::string hint = fmt::format("model: {} ({}), {}: {}\n", needs.model, needs.architecture,
                                 needs.mla ? "MLA" : "not MLA", needs.mla_evidence);
  hint += asked.empty() ? std::string("chosen by: nobody; the default is the first that fits\n")
                        : fmt::format("chosen by: the flag --attention-backend {}\n", asked);
  hint += fmt::format("hardware: {}: {}\n", hardware.name, hardware.description);
  const Fitting found = fitting(choice);
  hint += "would work here: " + (found.here.empty() ? "none" : join(names_of(found.here)));
  if (!found.elsewhere.empty()) {
    hint += "\nwould fit, but not in this build: " + join(names_of(found.elsewhere));
  }
  if (!found.here.empty()) {
    hint += fmt::format("\ntry: quern serve --model {} --attention-backend {}{}", needs.model,
                        found.here.front()->info.name, flags_of(needs));
  }
  return hint;
}

}  // namespace

std::span<const BackendRow> backends() {
  static const std::vector<BackendRow> table = make_table();
  return table;
}

const BackendRow& find_backend(std::string_view name) {
  std::vector<std::string> names;
  for (const BackendRow& row : backends()) {
    if (row.info.name == without_alias(name)) return row;
    names.emplace_back(row.info.name);
  }
  std::string lower(name.substr(0, 100));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string near = nearest(lower, names);
  throw Error(
      errors::kInvalidAttentionBackend,
      {{"name", name},
       {"param", "--attention-backend"},
       {"hint", (near.empty() ? "" : "did you mean " + near + "?\n") + "known: " + join(names)}});
}

Choice select(const Needs& needs, const Hardware& hardware) {
  Choice choice;
  for (const BackendRow& row : backends()) {
    choice.verdicts.push_back({&row, validate(row.info, needs, hardware)});
    if (!choice.row && choice.verdicts.back().refusals.empty()) choice.row = &row;
  }
  if (!choice.row) {
    choice.reason = "no backend of this build fits";
    return choice;
  }
  // Preferred ones that fit but for their kernels are the reason worth telling.
  std::vector<std::string> passed;
  for (const Verdict& verdict : choice.verdicts) {
    if (verdict.row == choice.row) break;
    if (!verdict.refusals.empty() && verdict.refusals.front().id == errors::kBackendNotInBuild) {
      passed.emplace_back(verdict.row->info.name);
    }
  }
  choice.reason = "the first in order of preference that fits this model and machine";
  if (!passed.empty()) choice.reason += " (not in this build: " + join(passed) + ")";
  return choice;
}

const BackendRow& choose(std::string_view name, const Needs& needs, const Hardware& hardware,
                         std::string* reason) {
  if (name.empty()) {
    const Choice choice = select(needs, hardware);
    if (!choice.row) {
      throw Error(errors::kNoBackendFits, {{"model", needs.model},
                                           {"hardware", hardware.description},
                                           {"param", "--attention-backend"},
                                           {"hint", hint_of(name, needs, hardware, choice)}});
    }
    if (reason) *reason = choice.reason;
    return *choice.row;
  }
  const BackendRow& row = find_backend(name);
  std::vector<Refusal> refusals = validate(row.info, needs, hardware);
  if (!refusals.empty()) {
    Refusal& first = refusals.front();
    first.fields.emplace_back("hint", hint_of(name, needs, hardware, select(needs, hardware)));
    throw Error(first.id, std::move(first.fields));
  }
  if (reason) *reason = fmt::format("asked for with --attention-backend {}", name);
  return row;
}

}  // namespace quern::attention

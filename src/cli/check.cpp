// `quern check`: which backends fit a model and a machine, as a table or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/check.h"

namespace quern::cli {
namespace {

using Json = nlohmann::ordered_json;

engine::CheckOptions check_options(const Options& options) {
  return {.engine = options.engine, .hardware = options.hardware};
}

void print_json(const engine::CheckReport& report) {
  Json backends = Json::array();
  for (const engine::CheckVerdict& verdict : report.verdicts) {
    Json refusals = Json::array();
    for (const engine::CheckRefusal& refusal : verdict.refusals) {
      refusals.push_back({{"id", refusal.id},
                          {"message", refusal.message},
                          {"wanted", refusal.wanted},
                          {"offered", refusal.offered}});
    }
    backends.push_back({{"name", verdict.backend},
                        {"fits", verdict.refusals.empty()},
                        {"refusals", refusals},
                        {"note", verdict.note}});
  }
  const Json answer = {
      {"model", report.model},
      {"architecture", report.architecture},
      {"mla", report.mla},
      {"mla_evidence", report.mla_evidence},
      {"hardware", report.hardware},
      {"hardware_description", report.hardware_description},
      {"choice", report.choice.empty() ? Json() : Json(report.choice)},
      {"reason", report.reason},
      {"backends", backends},
  };
  fmt::print("{}\n", answer.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_table(const engine::CheckReport& report) {
  fmt::print("model     {} ({})\n", report.model, report.architecture);
  fmt::print("attention {}: {}\n", report.mla ? "MLA" : "MHA", report.mla_evidence);
  fmt::print("hardware  {}: {}\n", report.hardware, report.hardware_description);
  fmt::print("choice    {}: {}\n\n", report.choice.empty() ? "none" : report.choice, report.reason);
  size_t width = 8;
  for (const engine::CheckVerdict& verdict : report.verdicts) {
    width = std::max(width, verdict.backend.size());
  }
  fmt::print("{:<{}}  verdict  first reason\n", "backend", width);
  for (const bool fits : {true, false}) {  // what can be used stands on top
    for (const engine::CheckVerdict& verdict : report.verdicts) {
      if (verdict.refusals.empty() != fits) continue;
      const std::string& reason = fits ? verdict.note : verdict.refusals.front().message;
      fmt::print("{:<{}}  {}  {}\n", verdict.backend, width, fits ? "fits   " : "refused", reason);
    }
  }
}

}  // namespace

int check_command(const Options& options) {
  const engine::CheckOptions asked = check_options(options);
  const engine::CheckReport report = engine::check(asked);
  if (options.json) {
    print_json(report);
  } else {
    print_table(report);
  }
  std::fflush(stdout);  // before the error, where both go to one terminal
  if (report.refused) throw Error(*report.refused);
  return 0;
}

void require_fit(const Options& options) { engine::require_backend(check_options(options)); }

}  // namespace quern::cli

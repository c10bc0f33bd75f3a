// `quern check`: which backends fit a model and a machine, every reason why others do not, and what
// fits in memory; as a table or JSON.
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

Json word_or_null(const std::string& word) { return word.empty() ? Json() : Json(word); }

Json error_json(const std::optional<Error>& error) {
  if (!error) return {};
  return {{"id", error->entry().id},
          {"message", error->message()},
          {"hint", std::string(error->field("hint"))}};
}

Json memory_json(const engine::MemoryEstimate& memory) {
  const auto known = [](bool known, std::int64_t value) { return known ? Json(value) : Json(); };
  const bool device = memory.device_bytes > 0;
  return {
      {"parameters", memory.parameters.total},
      {"active_parameters", memory.parameters.active},
      {"draft_parameters", memory.parameters.draft},
      {"known_class", memory.parameters.known_class},
      {"weight_bytes", memory.weight_bytes},
      {"weight_bytes_from", memory.stored_weights ? "files" : "config"},
      {"weight_type", memory.weight_type},
      {"weights_mapped", memory.mapped_weights},
      {"kv_cache_dtype", memory.kv_type},
      {"kv_bytes_per_token", memory.kv_bytes_per_token},
      {"kv_bytes_per_token_as_mha",
       known(memory.kv_bytes_per_token_expanded > 0, memory.kv_bytes_per_token_expanded)},
      {"state_bytes_per_request", memory.state_bytes_per_request},
      {"tp", memory.tp},
      {"device", memory.device},
      {"device_bytes", known(device, memory.device_bytes)},
      {"usable_share", engine::kUsableShare},
      {"free_bytes", known(device, memory.free_bytes)},
      {"context_length", memory.context},
      {"tokens", known(device, memory.tokens)},
      {"requests", known(device, memory.requests)},
      {"least_tp", known(memory.least_tp > 0, memory.least_tp)},
  };
}

Json backends_json(const engine::CheckReport& report) {
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
  return backends;
}

void print_json(const engine::CheckReport& report, const std::optional<Error>& flag) {
  const Json answer = {
      {"model", report.model},
      {"architecture", report.architecture},
      {"mla", report.mla},
      {"mla_evidence", report.mla_evidence},
      {"facts", report.facts},
      {"hardware", report.hardware},
      {"hardware_description", report.hardware_description},
      {"memory", memory_json(report.memory)},
      {"choice", word_or_null(report.choice)},
      {"reason", report.reason},
      {"preferred", word_or_null(report.preferred)},
      {"plan",
       {{"prefill", word_or_null(report.prefill)},
        {"decode", word_or_null(report.decode)},
        {"draft_prefill", word_or_null(report.draft_prefill)},
        {"draft_decode", word_or_null(report.draft_decode)},
        {"page_size", report.page_size > 0 ? Json(report.page_size) : Json()},
        {"kv_cache_dtype", word_or_null(report.kv_type)}}},
      {"refused", error_json(report.refused)},
      {"refused_flag", error_json(flag)},
      {"backends", backends_json(report)},
  };
  fmt::print("{}\n", answer.dump(2, ' ', false, Json::error_handler_t::replace));
}

// "671 B", "135 M": as models are named.
std::string count_words(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e12) return fmt::format("{:.2f} T", value / 1e12);
  if (value >= 1e9) return fmt::format("{:.4g} B", value / 1e9);
  return fmt::format("{:.4g} M", value / 1e6);
}

std::string size_words(std::int64_t bytes) {
  const double mebi = static_cast<double>(bytes) / (1024.0 * 1024);
  return mebi < 1024 ? fmt::format("{:.0f} MiB", mebi) : fmt::format("{:.1f} GiB", mebi / 1024);
}

void print_memory(const engine::MemoryEstimate& memory) {
  const engine::Parameters& parameters = memory.parameters;
  std::string line = count_words(parameters.total) + " parameters";
  if (parameters.active < parameters.total) {
    line += ", " + count_words(parameters.active) + " for a token";
  }
  if (parameters.draft > 0) line += ", " + count_words(parameters.draft) + " more for drafts";
  if (!parameters.known_class) line += " (counted as a plain decoder)";
  fmt::print("size      {}\n", line);
  fmt::print("weights   {} {} ({}{})\n", size_words(memory.weight_bytes),
             memory.stored_weights ? "in files" : "by the config", memory.weight_type,
             memory.mapped_weights ? "; mapped, so that not all need fit" : "");
  line = fmt::format("{} bytes a token as {}", memory.kv_bytes_per_token, memory.kv_type);
  if (memory.kv_bytes_per_token_expanded > 0) {
    line += fmt::format(" (MLA; as MHA {})", memory.kv_bytes_per_token_expanded);
  }
  if (memory.state_bytes_per_request > 0) {
    line += fmt::format(", {} bytes a request", memory.state_bytes_per_request);
  }
  fmt::print("KV cache  {}{}\n", line, memory.tp > 1 ? " on each rank" : "");
  if (memory.device_bytes == 0) {
    fmt::print("fits      not known: the memory of {} is not\n", memory.device);
    return;
  }
  const std::string place =
      fmt::format("{} × {} with {} (of which {:.0f} % are taken to be usable)", memory.tp,
                  memory.device, size_words(memory.device_bytes), engine::kUsableShare * 100);
  if (memory.free_bytes <= 0) {
    fmt::print("fits      not in {}{}\n", place,
               memory.least_tp > 0 ? fmt::format("; --tp {} holds the weights", memory.least_tp)
                                   : std::string());
    return;
  }
  fmt::print("fits      {} tokens, {} request{} of {} tokens, in {}\n", memory.tokens,
             memory.requests, memory.requests == 1 ? "" : "s", memory.context, place);
}

// What the flags ask for, where they ask for a backend or more than one takes part.
void print_plan(const engine::CheckReport& report) {
  if (report.refused) return;
  std::string plan = report.prefill == report.decode ? report.decode
                                                     : fmt::format("{} for prompts, {} after them",
                                                                   report.prefill, report.decode);
  if (!report.draft_decode.empty()) {
    plan +=
        fmt::format("; draft model: {}", report.draft_prefill == report.draft_decode
                                             ? report.draft_decode
                                             : report.draft_prefill + ", " + report.draft_decode);
  }
  if (report.page_size > 0) plan += fmt::format("; page size {}", report.page_size);
  fmt::print("would run {}; KV cache {}\n", plan, report.kv_type);
}

void print_table(const engine::CheckReport& report) {
  fmt::print("model     {} ({})\n", report.model, report.architecture);
  fmt::print("attention {}: {}\n", report.mla ? "MLA" : "MHA", report.mla_evidence);
  for (const std::string& fact : report.facts) fmt::print("          {}\n", fact);
  fmt::print("hardware  {}: {}\n", report.hardware, report.hardware_description);
  print_memory(report.memory);
  fmt::print("choice    {}: {}\n", report.choice.empty() ? "none" : report.choice, report.reason);
  print_plan(report);
  std::size_t width = 8;
  for (const engine::CheckVerdict& verdict : report.verdicts) {
    width = std::max(width, verdict.backend.size());
  }
  fmt::print("\n{:<{}}  verdict  reasons\n", "backend", width);
  for (const bool fits : {true, false}) {  // what can be used stands on top
    for (const engine::CheckVerdict& verdict : report.verdicts) {
      if (verdict.refusals.empty() != fits) continue;
      if (fits) {
        fmt::print("{:<{}}  fits     {}\n", verdict.backend, width, verdict.note);
        continue;
      }
      for (const engine::CheckRefusal& refusal : verdict.refusals) {
        const bool first = &refusal == &verdict.refusals.front();
        fmt::print("{:<{}}  {}  {}\n", first ? verdict.backend : "", width,
                   first ? "refused" : "       ", refusal.message);
      }
    }
  }
}

}  // namespace

int check_command(const Options& options) {
  const engine::CheckReport report = engine::check(check_options(options));
  if (options.json) {
    print_json(report, options.refused_flag);
  } else {
    print_table(report);
  }
  std::fflush(stdout);  // before the error, where both go to one terminal
  if (report.refused) throw Error(*report.refused);
  if (options.refused_flag) throw Error(*options.refused_flag);
  return 0;
}

void require_fit(const Options& options) { engine::require_backend(check_options(options)); }

}  // namespace quern::cli

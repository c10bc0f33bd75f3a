// `quern inspect`: architecture, shapes, types and sizes of a checkpoint, as text or JSON.
#include "engine/inspect.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace quern::cli {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const engine::InspectReport& report) {
  const ModelConfig& config = report.config;
  Json types = Json::array(), tensors = Json::array();
  for (const engine::InspectType& type : report.types) {
    types.push_back({{"dtype", type.dtype},
                     {"tensors", type.tensors},
                     {"parameters", type.parameters},
                     {"bytes", type.bytes}});
  }
  for (const engine::InspectTensor& tensor : report.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
  }
  return {
      {"model", report.path},
      {"name", config.name},
      {"format", report.format},
      {"architecture", config.architecture},
      {"model_type", config.model_type},
      {"layers", config.layers},
      {"hidden", config.hidden},
      {"inter", config.inter},
      {"heads", config.heads},
      {"kv_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"v_head_dim", config.v_head_dim},
      {"vocab", config.vocab},
      {"context_length", config.context_length},
      {"kv_lora_rank", config.kv_lora_rank},
      {"qk_rope_head_dim", config.qk_rope_head_dim},
      {"sliding_window", config.sliding_window},
      {"experts", config.experts},
      {"experts_per_token", config.experts_per_token},
      {"rope_theta", config.rope_theta},
      {"rope_scaling", config.rope_scaling.type},
      {"tied_embeddings", config.tied_embeddings},
      {"eos_token_ids", config.eos_token_ids},
      {"tokenizer", report.tokenizer.empty() ? Json() : Json(report.tokenizer)},
      {"tokens", report.tokens},
      {"has_chat_template", report.has_chat_template},
      {"kv_bytes_per_token", report.kv_bytes_per_token},
      {"parameters", report.parameters},
      {"bytes", report.bytes},
      {"types", types},
      {"tensors", tensors},
  };
}

std::string size_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (bytes >= std::int64_t{1} << 30) return fmt::format("{:.2f} GiB", size / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", size / (1 << 20));
  return fmt::format("{:.1f} KiB", size / (1 << 10));
}

std::string count_text(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.2f} billion", number / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f} million", number / 1e6);
  return fmt::to_string(count);
}

void print_facts(const engine::InspectReport& report) {
  const ModelConfig& config = report.config;
  fmt::print("model         {} ({})\n", config.name, report.format);
  fmt::print("architecture  {}\n", config.architecture);
  fmt::print("layers        {} of {} hidden, {} inter\n", config.layers, config.hidden,
             config.inter);
  fmt::print("attention     {} heads of {}, {} KV heads\n", config.heads, config.head_dim,
             config.kv_heads);
  if (config.kv_lora_rank > 0) {
    fmt::print("latent        {} + {} rotated per token (MLA)\n", config.kv_lora_rank,
               config.qk_rope_head_dim);
  }
  if (config.sliding_window > 0) fmt::print("window        {} tokens\n", config.sliding_window);
  if (config.experts > 0) {
    fmt::print("experts       {}, {} per token\n", config.experts, config.experts_per_token);
  }
  fmt::print("vocabulary    {} rows, head {}\n", config.vocab,
             config.tied_embeddings ? "tied" : "of its own");
  fmt::print("context       {} tokens, rope base {:.0f}, scaling {}\n", config.context_length,
             config.rope_theta, config.rope_scaling.type);
  if (report.tokenizer.empty()) {
    fmt::print("tokenizer     none\n");
  } else {
    fmt::print("tokenizer     {}, {} tokens, {} chat template\n", report.tokenizer, report.tokens,
               report.has_chat_template ? "with a" : "no");
  }
  fmt::print("KV cache      {} bytes per token in bf16\n", report.kv_bytes_per_token);
}

void print_text(const engine::InspectReport& report) {
  print_facts(report);
  if (report.tensors.empty()) return;
  fmt::print("parameters    {} in {}\n", count_text(report.parameters), size_text(report.bytes));
  for (const engine::InspectType& type : report.types) {
    fmt::print("  {:<5} {:>5} tensors, {:>10}\n", type.dtype, type.tensors, size_text(type.bytes));
  }
  fmt::print("\n");
  for (const engine::InspectTensor& tensor : report.tensors) {
    fmt::print("{:<48} {:<5} {:>10}  [{}]\n", tensor.name, tensor.dtype, size_text(tensor.bytes),
               fmt::join(tensor.shape, ", "));
  }
}

}  // namespace

int inspect_command(const Options& options) {
  const engine::InspectReport report = engine::inspect(options.engine.model_path);
  if (options.json) {
    fmt::print("{}\n", json_of(report).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_text(report);
  }
  return 0;
}

}  // namespace quern::cli

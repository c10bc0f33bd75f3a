#include "engine/inspect.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json.h"

namespace quern::engine {
namespace {

constexpr std::int64_t kBf16Bytes = 2;

std::int64_t kv_bytes_per_token(const ModelConfig& config) {
  const std::int64_t values = config.kv_lora_rank > 0
                                  ? config.kv_lora_rank + config.qk_rope_head_dim
                                  : config.kv_heads * (config.head_dim + config.v_head_dim);
  return config.layers * values * kBf16Bytes;
}

void describe_tokenizer(const checkpoint::TokenizerSource& source, InspectReport& report) {
  report.has_chat_template = !source.chat_template.empty();
  if (!source.model.empty()) {
    report.tokenizer =
        valid_utf8(source.pre.empty() ? source.model : source.model + " (" + source.pre + ")");
    report.tokens = static_cast<std::int64_t>(source.tokens.size());
    return;
  }
  if (source.tokenizer_json.empty()) return;
  const auto root = checkpoint::parse_json_object(source.tokenizer_json, source.origin);
  report.tokenizer = "tokenizer.json";
  const auto model = root.find("model");
  if (model == root.end() || !model->is_object()) return;
  const auto type = model->find("type"), vocab = model->find("vocab");
  if (type != model->end() && type->is_string()) report.tokenizer = type->get<std::string>();
  if (vocab != model->end()) report.tokens = static_cast<std::int64_t>(vocab->size());
}

void describe_weights(const checkpoint::Weights& weights, InspectReport& report) {
  std::map<std::string, InspectType> types;
  for (const TensorInfo& info : weights.tensors()) {
    const std::string dtype(name_of(info.dtype));
    std::int64_t parameters = 1;
    for (const std::int64_t dim : info.shape) parameters *= dim;
    InspectType& type = types[dtype];
    type.dtype = dtype;
    ++type.tensors;
    type.parameters += parameters;
    type.bytes += info.bytes;
    report.parameters += parameters;
    report.bytes += info.bytes;
    report.tensors.push_back({valid_utf8(info.name), dtype, info.shape, info.bytes});
  }
  for (auto& [dtype, type] : types) report.types.push_back(std::move(type));
  std::ranges::stable_sort(report.types, std::greater{}, &InspectType::bytes);
}

}  // namespace

InspectReport inspect(const std::string& model_path) {
  const checkpoint::Metadata metadata = checkpoint::read_metadata(model_path);
  InspectReport report;
  report.path = model_path;
  report.format = metadata.format == checkpoint::Format::kGguf ? "GGUF" : "Hugging Face";
  report.config = metadata.config;
  report.kv_bytes_per_token = kv_bytes_per_token(metadata.config);
  describe_tokenizer(metadata.tokenizer, report);
  if (!model_path.ends_with(".json")) {
    describe_weights(*checkpoint::open_weights(metadata), report);
  }
  return report;
}

}  // namespace quern::engine

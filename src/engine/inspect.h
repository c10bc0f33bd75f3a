// What stands in a checkpoint: facts, tensors and sizes, without reading a weight. Called by
// `quern inspect`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model_config.h"

namespace quern::engine {

struct InspectTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;  // outermost first
  std::int64_t bytes = 0;           // as stored
};

struct InspectType {
  std::string dtype;
  std::int64_t tensors = 0, parameters = 0, bytes = 0;
};

struct InspectReport {
  std::string path, format;  // "GGUF" or "Hugging Face"
  ModelConfig config;
  std::string tokenizer;  // "BPE (gpt2, smollm)"; "" where there is none
  std::int64_t tokens = 0;
  bool has_chat_template = false;
  std::int64_t kv_bytes_per_token = 0;  // of a bf16 cache; for MLA of the latent
  std::int64_t parameters = 0, bytes = 0;
  std::vector<InspectType> types;      // by falling bytes
  std::vector<InspectTensor> tensors;  // in the checkpoint's order
};

// Given a config.json itself, the weights are not looked for and `tensors` stays empty.
// Throws: the kCheckpoint… and kConfig… ids.
InspectReport inspect(const std::string& model_path);

}  // namespace quern::engine

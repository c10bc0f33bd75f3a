// How much memory a model takes and how many tokens fit beside its weights, from the facts of its
// config alone. Called by check.cpp; an estimate, since buffers and padding are not counted.
#pragma once

#include <cstdint>
#include <string>

#include "attention/hardware.h"
#include "attention/needs.h"
#include "core/model_config.h"

namespace quern::engine {

struct Parameters {
  std::int64_t total = 0;   // of the language model, encoders of text and sound included
  std::int64_t active = 0;  // that one token uses
  std::int64_t draft = 0;   // of its multi-token-prediction layers, not in `total`
  // Whether the class is one whose parts are known; else it was counted as a plain decoder.
  bool known_class = false;
};

// Counts the weights; norms and biases, which are far below a percent, are left out.
Parameters count_parameters(const ModelConfig& config);

// Bytes that one token takes in the KV cache of one of `tp` ranks. Latent rows are not shared out.
// Of MLA models `expanded` asks for keys and values of every head instead of the latent.
std::int64_t kv_bytes_per_token(const ModelConfig& config, attention::KvType type, std::int64_t tp,
                                bool expanded = false);

// What a request holds whatever its length: the states of linear attention.
std::int64_t state_bytes_per_request(const ModelConfig& config, std::int64_t tp);

// The weights as they are stored, from the parameters, dtype and quantization.
std::int64_t weight_bytes(const ModelConfig& config, const Parameters& parameters);

// What weights take of `usable` bytes of memory. Mapped ones need not all be there at once: beyond
// half of the memory they are read again from the file.
constexpr double resident_bytes(double weights, double usable, bool mapped) {
  return mapped && weights > usable / 2 ? usable / 2 : weights;
}

struct MemoryEstimate {
  Parameters parameters;
  std::int64_t weight_bytes = 0;
  bool stored_weights = false;  // weight_bytes is the size of the files
  bool mapped_weights = false;  // they stay in the files: --no-repack
  std::string weight_type;      // "bfloat16", "fp8", "mxfp4 experts, bfloat16 else"
  std::string kv_type;
  std::int64_t kv_bytes_per_token = 0;           // of one rank
  std::int64_t kv_bytes_per_token_expanded = 0;  // as MHA; 0 where the model is not MLA
  std::int64_t state_bytes_per_request = 0;
  std::int64_t tp = 1;
  std::string device;             // "NVIDIA H200", "main memory"
  std::int64_t device_bytes = 0;  // of one rank's device; 0: not known
  std::int64_t free_bytes = 0;    // of one device, after the weights; negative: they do not fit
  std::int64_t context = 0;       // tokens of the requests below
  std::int64_t tokens = 0, requests = 0;  // that fit; 0: none
  std::int64_t least_tp = 0;  // the smallest power of two whose devices hold the weights; 0: none
};

// Of a device's memory this much is taken to be usable.
inline constexpr double kUsableShare = 0.9;

// `stored` are the bytes of the weight files, 0 where there are none; `context` 0 is the model's;
// `mapped`: --no-repack.
MemoryEstimate estimate_memory(const ModelConfig& config, const attention::Hardware& hardware,
                               attention::KvType type, std::int64_t tp, std::int64_t context,
                               std::int64_t stored, bool mapped = false);

}  // namespace quern::engine

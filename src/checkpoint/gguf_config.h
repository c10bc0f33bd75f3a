// A GGUF header to the facts of its model: ModelConfig, tokenizer, sampling defaults. Called by
// checkpoint.cpp and the fuzzer.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"

namespace quern::checkpoint {

// `header` is the file's, or the first part's with the tensors of all parts.
// Throws: kConfigFieldMissing, kConfigFieldInvalid, kCheckpointTensorMissing.
ModelConfig gguf_config(const GgufHeader& header);

// Empty `model` where the file has no tokenizer. Throws: kConfigFieldInvalid.
TokenizerSource gguf_tokenizer(const GgufHeader& header, const ModelConfig& config);
// Of a file whose other facts do not matter: its tokens are the bound on ids.
TokenizerSource gguf_tokenizer(const GgufHeader& header);

// Throws: kConfigFieldInvalid.
GenerationDefaults gguf_generation(const GgufHeader& header);

}  // namespace quern::checkpoint

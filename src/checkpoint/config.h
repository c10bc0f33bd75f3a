// config.json and generation_config.json to facts. Takes any model class: what `quern check` needs
// of models that this build does not serve stands here too. Reads the form that published
// checkpoints have (rope_theta, rope_scaling, torch_dtype) and the newer one (rope_parameters,
// layer_types, dtype). Called by checkpoint.cpp; checks shared with GGUF stand in check_config().
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "core/model_config.h"

namespace quern::checkpoint {

// `file` is for messages and becomes `origin`; `name` stays empty.
// Throws: kCheckpointJsonInvalid, kConfigFieldMissing, kConfigFieldInvalid.
ModelConfig parse_config(std::string_view text, const std::string& file);

// Adds the end-of-sequence ids of a generation_config.json to `config` and returns the sampling
// defaults. Throws: as parse_config().
GenerationDefaults parse_generation_config(std::string_view text, const std::string& file,
                                           ModelConfig& config);

// What must hold between the facts of one model: head counts divide, token ids lie in the
// vocabulary, rotated dims are even. Throws: kConfigFieldInvalid naming config.origin.
void check_config(const ModelConfig& config);

// The classes whose decoder attends to an encoder's output, Mllama's cross-attention layers
// included.
bool is_encoder_decoder_class(std::string_view architecture);

}  // namespace quern::checkpoint

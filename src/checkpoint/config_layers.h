// The facts of config.json that say what the layers are: windows and chunks, linear attention,
// experts, encoders, and how the weights are stored. Called by config.cpp after the sizes are read.
#pragma once

#include <nlohmann/json.hpp>

#include "checkpoint/config_fields.h"
#include "core/model_config.h"

namespace quern::checkpoint {

// Sets sliding_window, attention_chunk, layer_kinds and what linear attention has. Requires:
// config.layers and model_type; `type` is the language model's own. Throws: kConfigField… ids.
void read_layer_kinds(const ConfigFields& fields, std::string_view type, ModelConfig& config);

// Experts, the layers that have them, and the shape of a feed-forward block.
void read_experts(const ConfigFields& fields, std::string_view type, ModelConfig& config);

// Encoder and position table of encoder-decoder models.
void read_encoder(const ConfigFields& fields, std::string_view type, ModelConfig& config);

// quantization_config, where there is one.
void read_quantization(const ConfigFields& fields, ModelConfig& config);

}  // namespace quern::checkpoint

// Which experts a token goes to, and with which weights: from the router's outputs for that token
// alone. Pure; called by moe.cpp for every token.
#pragma once

#include <cstdint>
#include <span>

#include "core/model_config.h"

namespace quern::model {

// Throws: kModelFeatureNotServed for scores or a method that route() does not know,
// kModelConfigMismatch for counts that do not fit together.
void check_routing(const ModelConfig& config);

// logits [experts] become scores. bias [experts] belongs to method noaux_tc, else it is empty.
// Writes the expert of each slot, the best first, the lowest of equals, and its weight:
// experts, weights [experts_per_token]. A logit that is no number never makes an expert better.
// Requires: check_routing() has passed.
void route(const ExpertRouting& routing, std::span<float> logits, std::span<const float> bias,
           std::span<std::int32_t> experts, std::span<float> weights);

}  // namespace quern::model

// A decoder: the embedding, layers of attention and feed-forward with a norm before each, the last
// norm and the head. Families say which parts its layers have (families/).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "model/layers/layer.h"
#include "model/model.h"

namespace quern::model {

// What every decoder asks of a configuration: sizes, activation, rope.
// Throws: kModelFeatureNotServed, kModelConfigMismatch.
void check_decoder(const ModelConfig& config);

// Throw kModelConfigMismatch and kModelFeatureNotServed, for the checks of parts and families.
[[noreturn]] void config_mismatch(const ModelConfig& config, std::string what);
[[noreturn]] void feature_not_served(const ModelConfig& config, std::string feature);

// Makes the parts of one layer; the decoder loads its norms.
using MakeLayer = std::function<LayerParts(const LayerLoader& layer)>;

// Throws: as WeightLoader's, kOutOfMemory.
std::unique_ptr<Model> load_decoder(const checkpoint::Metadata& metadata,
                                    const checkpoint::Weights& weights, ThreadPool& pool,
                                    const LoadOptions& options, const MakeLayer& make_layer);

}  // namespace quern::model

// Families whose layers are self-attention and one gated feed-forward; they differ in what their
// attention has.
#pragma once

#include "model/layers/decoder.h"
#include "model/layers/mlp.h"
#include "model/layers/self_attention.h"
#include "model/model.h"

namespace quern::model {

template <SelfAttentionFeatures kFeatures>
Family dense_family(std::span<const std::string_view> architectures) {
  return {.architectures = architectures,
          .check =
              [](const ModelConfig& config) {
                check_decoder(config);
                check_self_attention(config);
                if (config.experts > 0) {
                  feature_not_served(config, fmt::format("{} experts", config.experts));
                }
              },
          .load =
              [](const checkpoint::Metadata& metadata, const checkpoint::Weights& weights,
                 ThreadPool& pool, const LoadOptions& options) {
                return load_decoder(metadata, weights, pool, options, [](const LayerLoader& layer) {
                  return LayerParts{load_self_attention(layer, kFeatures),
                                    load_mlp(layer, layer.config.inter)};
                });
              }};
}

}  // namespace quern::model

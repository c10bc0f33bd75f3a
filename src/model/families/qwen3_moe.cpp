// Qwen3-MoE: Qwen3's attention, and experts in the layers that do not stand in mlp_only_layers.
#include "model/families/families.h"
#include "model/layers/decoder.h"
#include "model/layers/mlp.h"
#include "model/layers/moe.h"
#include "model/layers/self_attention.h"

namespace quern::model {
namespace {

constexpr std::string_view kArchitectures[] = {"Qwen3MoeForCausalLM"};

void check(const ModelConfig& config) {
  check_decoder(config);
  check_self_attention(config);
  check_moe(config);
}

std::unique_ptr<Model> load(const checkpoint::Metadata& metadata,
                            const checkpoint::Weights& weights, ThreadPool& pool,
                            const LoadOptions& options) {
  return load_decoder(metadata, weights, pool, options, [](const LayerLoader& layer) {
    const ModelConfig& config = layer.config;
    return LayerParts{
        load_self_attention(layer, {.head_norm = true}),
        config.has_experts(layer.index) ? load_moe(layer) : load_mlp(layer, config.inter)};
  });
}

}  // namespace

Family qwen3_moe_family() {
  return {.architectures = kArchitectures, .check = check, .load = load};
}

}  // namespace quern::model

// DeepSeek V2 and V3 (R1 too), and what is made like them under other names: Kimi K2 and Moonlight,
// which call themselves V3, and GLM-4.7-Flash. Latent attention; experts in all layers but the
// first ones. Layers of multi-token prediction are let be.
#include "base/log.h"
#include "model/families/families.h"
#include "model/layers/decoder.h"
#include "model/layers/mla.h"
#include "model/layers/mlp.h"
#include "model/layers/moe.h"

namespace quern::model {
namespace {

constexpr std::string_view kArchitectures[] = {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM",
                                               "Glm4MoeLiteForCausalLM"};

void check(const ModelConfig& config) {
  check_decoder(config);
  check_mla(config);
  if (config.experts > 0) check_moe(config);
}

std::unique_ptr<Model> load(const checkpoint::Metadata& metadata,
                            const checkpoint::Weights& weights, ThreadPool& pool,
                            const LoadOptions& options) {
  if (const std::int64_t layers = metadata.config.nextn_layers; layers > 0) {
    log().info(
        "{} multi-token-prediction layer{} of {} stay{} unread: nothing drafts with them yet",
        layers, layers == 1 ? "" : "s", weights.origin(), layers == 1 ? "s" : "");
  }
  return load_decoder(metadata, weights, pool, options, [&](const LayerLoader& layer) {
    const ModelConfig& config = layer.config;
    return LayerParts{load_mla(layer, options.deterministic), config.has_experts(layer.index)
                                                                  ? load_moe(layer)
                                                                  : load_mlp(layer, config.inter)};
  });
}

}  // namespace

Family deepseek_family() { return {.architectures = kArchitectures, .check = check, .load = load}; }

}  // namespace quern::model

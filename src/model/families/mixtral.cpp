// Mixtral: Mistral's attention, and experts in every layer.
#include "model/families/families.h"
#include "model/layers/decoder.h"
#include "model/layers/moe.h"
#include "model/layers/self_attention.h"

namespace quern::model {
namespace {

constexpr std::string_view kArchitectures[] = {"MixtralForCausalLM"};

void check(const ModelConfig& config) {
  check_decoder(config);
  check_self_attention(config);
  check_moe(config);
}

MoeNames names() {
  MoeNames names;
  names.router.hugging_face = "block_sparse_moe.gate.weight";
  names.gate.hugging_face = "block_sparse_moe.experts.{}.w1.weight";
  names.down.hugging_face = "block_sparse_moe.experts.{}.w2.weight";
  names.up.hugging_face = "block_sparse_moe.experts.{}.w3.weight";
  return names;
}

std::unique_ptr<Model> load(const checkpoint::Metadata& metadata,
                            const checkpoint::Weights& weights, ThreadPool& pool,
                            const LoadOptions& options) {
  return load_decoder(metadata, weights, pool, options, [](const LayerLoader& layer) {
    return LayerParts{load_self_attention(layer, {}), load_moe(layer, names())};
  });
}

}  // namespace

Family mixtral_family() { return {.architectures = kArchitectures, .check = check, .load = load}; }

}  // namespace quern::model

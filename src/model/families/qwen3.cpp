// Qwen3: a norm over each head of q and k. The width of a head is a field of its own.
#include "model/families/dense.h"
#include "model/families/families.h"

namespace quern::model {
namespace {

constexpr std::string_view kArchitectures[] = {"Qwen3ForCausalLM"};
constexpr SelfAttentionFeatures kFeatures = {.head_norm = true};

}  // namespace

Family qwen3_family() { return dense_family<kFeatures>(kArchitectures); }

}  // namespace quern::model

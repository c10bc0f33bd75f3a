// Mistral: Llama whose layers all have a sliding window, or none.
#include "model/families/dense.h"
#include "model/families/families.h"

namespace quern::model {
namespace {

constexpr std::string_view kArchitectures[] = {"MistralForCausalLM"};
constexpr SelfAttentionFeatures kFeatures = {};

}  // namespace

Family mistral_family() { return dense_family<kFeatures>(kArchitectures); }

}  // namespace quern::model

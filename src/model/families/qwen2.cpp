// Qwen2 and Qwen2.5: biases on q, k and v. Where a file asks for a window, it is that of the layers
// from max_window_layers on.
#include "model/families/dense.h"
#include "model/families/families.h"

namespace quern::model {
namespace {

constexpr std::string_view kArchitectures[] = {"Qwen2ForCausalLM"};
constexpr SelfAttentionFeatures kFeatures = {.biases = true};

}  // namespace

Family qwen2_family() { return dense_family<kFeatures>(kArchitectures); }

}  // namespace quern::model

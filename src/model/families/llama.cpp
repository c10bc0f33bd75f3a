// Llama, and what is made like it: SmolLM2, and Mistral in GGUF files.
#include "model/families/dense.h"
#include "model/families/families.h"

namespace quern::model {
namespace {

constexpr std::string_view kArchitectures[] = {"LlamaForCausalLM"};
constexpr SelfAttentionFeatures kFeatures = {};

}  // namespace

Family llama_family() { return dense_family<kFeatures>(kArchitectures); }

}  // namespace quern::model

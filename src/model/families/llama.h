// Llama 1–3, SmolLM and what else is published as LlamaForCausalLM: RMSNorm, RoPE, grouped-query
// attention, SwiGLU, tied or untied head.
#pragma once

#include "model/model.h"

namespace quern::model {

Family llama_family();

}  // namespace quern::model

// The families of this build, one file each; model.cpp lists them.
#pragma once

#include "model/model.h"

namespace quern::model {

Family deepseek_family();
Family llama_family();
Family mistral_family();
Family mixtral_family();
Family qwen2_family();
Family qwen3_family();
Family qwen3_moe_family();

}  // namespace quern::model

#include "model/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/errors/model.h"
#include "model/families/families.h"

namespace quern::model {

namespace {

std::span<const Family> families() {
  static const Family kFamilies[] = {llama_family(),   mistral_family(), mixtral_family(),
                                     qwen2_family(),   qwen3_family(),   qwen3_moe_family(),
                                     deepseek_family()};
  return kFamilies;
}

}  // namespace

const Family* family_of(const ModelConfig& config) {
  for (const Family& family : families()) {
    const auto names = family.architectures;
    if (std::find(names.begin(), names.end(), config.architecture) != names.end()) return &family;
  }
  return nullptr;
}

std::string served_architectures() {
  std::vector<std::string_view> served;
  for (const Family& family : families()) {
    served.insert(served.end(), family.architectures.begin(), family.architectures.end());
  }
  return fmt::format("{}", fmt::join(served, ", "));
}

const Family& find_family(const ModelConfig& config) {
  if (const Family* family = family_of(config)) return *family;
  throw Error(errors::kModelFamilyNotServed,
              {{"architecture", config.architecture}, {"served", served_architectures()}});
}

}  // namespace quern::model

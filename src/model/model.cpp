#include "model/model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/errors/model.h"
#include "model/families/llama.h"

namespace quern::model {

const Family& find_family(const ModelConfig& config) {
  static const Family kFamilies[] = {llama_family()};
  std::vector<std::string_view> served;
  for (const Family& family : kFamilies) {
    const auto names = family.architectures;
    if (std::find(names.begin(), names.end(), config.architecture) != names.end()) return family;
    served.insert(served.end(), names.begin(), names.end());
  }
  throw Error(errors::kModelFamilyNotServed,
              {{"architecture", config.architecture},
               {"served", fmt::format("{}", fmt::join(served, ", "))}});
}

}  // namespace quern::model

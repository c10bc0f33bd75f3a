// The table of backends in order of preference, and the choice from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/validate.h"

namespace quern::attention {

// Every backend, in order of preference.
std::span<const BackendRow> backends();
// Throws: kInvalidAttentionBackend with the nearest names.
const BackendRow& find_backend(std::string_view name);

struct Verdict {
  const BackendRow* row = nullptr;
  std::vector<Refusal> refusals;  // empty: fits
};

struct Choice {
  const BackendRow* row = nullptr;  // null where nothing fits
  std::string reason;               // why this one
  std::vector<Verdict> verdicts;    // all backends, in order of preference
};

// The first backend that nothing refuses.
Choice select(const Needs& needs, const Hardware& hardware);

// The row to run: `name` if given, honoured or refused and never replaced, else the automatic
// choice. Throws: kInvalidAttentionBackend; the first refusal's id, with a hint that tells the
// model and the evidence, the hardware, what would work and the corrected flag; kNoBackendFits.
const BackendRow& choose(std::string_view name, const Needs& needs, const Hardware& hardware,
                         std::string* reason);

}  // namespace quern::attention

// The choice of backends: what the flags name is honoured or refused and never replaced; what they
// leave open is the first of an ordered list of defaults that nothing refuses.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/plan.h"
#include "attention/registry.h"

namespace quern::attention {

// The names that the flags give; "" is unset.
struct Asked {
  std::string base = {}, prefill = {}, decode = {}, draft = {};
};

struct Verdict {
  const BackendRow* row = nullptr;
  std::vector<Refusal> refusals;  // as --attention-backend; empty: fits
};

struct Choice {
  Plan plan;              // the automatic one; rows are null where nothing fits
  std::string reason;     // why this one
  std::string preferred;  // what would be chosen had this build its kernels; "" where that is it
  std::vector<Verdict> verdicts;  // all backends, best first
};

// As if no flag named a backend for the target. `draft` is that of the draft model, or "".
Choice select(const Question& question, std::string_view draft = "");

// What the flags ask for, completed. Throws: kInvalidAttentionBackend; the first refusal's id, with
// a hint that tells the model and the evidence, who chose, the hardware, what would work and the
// corrected command; kNoBackendFits.
Plan choose(const Question& question, const Asked& asked, std::string* reason = nullptr);

}  // namespace quern::attention

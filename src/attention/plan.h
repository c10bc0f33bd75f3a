// Backends put together: the halves of a prefill/decode split and those of a draft model share one
// KV cache, so their page sizes and types are intersected. Pure; called by select.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attention/validate.h"

namespace quern::attention {

// What is to be served, and where.
struct Question {
  Needs target;
  std::optional<Needs> draft;  // a draft model, or the target's own prediction layers
  Hardware hardware;
  bool verify_in_decode = false;  // --speculative-attention-mode decode
  bool draft_missing = false;     // the algorithm drafts with a model, and none is given
};

// A backend and who set it: "the flag --attention-backend fa3", "the default".
struct Half {
  const BackendRow* row = nullptr;
  std::string chosen_by;
};

struct Plan {
  Half prefill, decode;              // the same row where there is no split
  Half draft_prefill, draft_decode;  // rows are null without a draft model
  std::int64_t page_size = 0;        // 0: any, the layout decides
  KvType kv_type = KvType::kAuto;    // the first that all serve, where the flag says auto
  std::vector<std::string> notes;    // for the log: old names and the like
  std::vector<Refusal> refusals;     // in the order of Check, the target's first; empty: it fits

  bool fits() const { return refusals.empty(); }
  bool split() const { return prefill.row != decode.row; }
};

// Halves of the draft model without a row inherit the target's.
Plan make_plan(const Question& question, Half prefill, Half decode, Half draft = {});

// The flag's backend as a whole: where it only decodes, its partner's prefill goes with it.
Plan plan_of(const Question& question, const Half& whole, Half draft = {});

}  // namespace quern::attention

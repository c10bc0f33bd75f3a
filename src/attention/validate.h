// Does one backend fit a model and a machine? Pure and total: no I/O, no weights, every refusal.
// Called by plan.cpp, which puts the halves of a split and a draft model together.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention/backend.h"
#include "attention/hardware.h"
#include "base/error.h"

namespace quern::attention {

// Why a backend cannot serve: the catalogue's message, what was asked, what is offered.
struct Refusal {
  Check check;  // refusals stand in this order
  ErrorId id;
  std::string message;  // SGLang's words where SGLang has some
  std::string wanted, offered;
  std::vector<ErrorField> fields;  // what fills the message
  std::string_view backend = {};   // who refuses
  bool draft = false;              // it is the draft model that is refused
};

// A refusal with its message filled in; `fields` beside those of model, backend and machine.
Refusal refusal_of(Check check, ErrorId id, const BackendInfo& info, const Needs& needs,
                   const Hardware& hardware, std::string wanted, std::string offered,
                   std::vector<ErrorField> fields = {});

// In the order of Check. Empty: the backend fits.
std::vector<Refusal> validate(const BackendInfo& info, const Needs& needs, const Hardware& hardware,
                              Phase phase = Phase::kBoth);

// The page sizes that the backend serves here, best first; empty: any.
std::span<const std::int32_t> page_sizes_of(const BackendInfo& info, const Needs& needs,
                                            const Hardware& hardware);
std::span<const KvType> kv_types_of(const BackendInfo& info, const Needs& needs);

bool is_fp4(KvType type);

// Whether this build can run the backend's kernels here: its own, or with a simulated machine the
// portable ones under its contract.
bool has_kernels(const BackendInfo& info, const Hardware& hardware);

}  // namespace quern::attention

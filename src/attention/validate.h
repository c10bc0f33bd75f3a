// Does a backend fit a model and a machine? Pure and total: no I/O, no weights, every refusal.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/backend.h"
#include "attention/hardware.h"
#include "base/error.h"

namespace quern::attention {

// Why a backend cannot serve: the catalogue's message, what was asked, what is offered.
struct Refusal {
  ErrorId id;
  std::string message;  // SGLang's words where SGLang has some
  std::string wanted, offered;
  std::vector<ErrorField> fields;  // what fills the message
};

// Order: model architecture, cross attention, speculative decoding; page size, KV type, head dims,
// window, sinks, cap; hardware; what this build lacks. Empty: the backend fits.
std::vector<Refusal> validate(const BackendInfo& info, const Needs& needs,
                              const Hardware& hardware);

}  // namespace quern::attention

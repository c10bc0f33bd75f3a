// Does a backend fit a model and a machine? Pure and total: no I/O, no weights, every refusal.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/backend.h"
#include "base/error.h"

namespace quern::attention {

// The machine, probed once or named with --hardware.
struct Hardware {
  std::string name;         // "this machine", "h100"
  std::string description;  // "AMD EPYC, 2 CPUs, AVX2, no GPU"
  bool x86 = false, avx2 = false, avx512 = false, amx = false;
  std::optional<int> sm;  // compute capability ×10 of the first NVIDIA GPU
  bool amd_gpu = false, ascend = false, intel_gpu = false;
};
Hardware probe_hardware();
// A machine that one does not have, by name. Throws: kInvalidFlagValue with the known names.
Hardware hardware_named(std::string_view name);
std::vector<std::string_view> hardware_names();

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

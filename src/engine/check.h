// Answers before anything is loaded: which attention backends fit a model, a machine and the flags,
// and why others do not. Called by `quern check`; reads the checkpoint's metadata and no weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/memory_estimate.h"
#include "quern/engine.h"

namespace quern::engine {

struct CheckOptions {
  EngineOptions engine;  // model_path may be a GGUF file, a Hugging Face folder or a config.json
  std::string hardware;  // a named machine; "": this one
};

struct CheckRefusal {
  std::string id, message;  // of the catalogue
  std::string wanted, offered;
};

struct CheckVerdict {
  std::string backend;
  std::vector<CheckRefusal> refusals;  // in the order of the checks; empty: fits
  std::string note;
};

struct CheckReport {
  std::string model, architecture;
  bool mla = false;
  std::string mla_evidence;        // the field that said so
  std::vector<std::string> facts;  // what else of the model decides, a few words each
  std::string hardware, hardware_description;
  MemoryEstimate memory;
  std::vector<CheckVerdict> verdicts;  // all backends, in order of preference
  std::string choice;                  // the automatic one; "" where nothing fits
  std::string reason;
  std::string preferred;  // what would be chosen had this build its kernels; "" where that is it

  // What the flags ask for, completed: the automatic choice where they name no backend; or why it
  // is refused.
  std::optional<Error> refused;
  std::string prefill, decode, draft_prefill, draft_decode;
  std::int64_t page_size = 0;  // 0: any
  std::string kv_type;
};

// Every backend's verdict. A refusal is part of the report and not thrown.
// Throws: the kCheckpoint… and kConfig… ids, kInvalidFlagValue.
CheckReport check(const CheckOptions& options);

// The backend that would serve (of a split the decode half). Throws: what keeps the asked-for one
// (or any) from doing so, as attention::choose; what the model's family does not serve;
// kInvalidAttentionBackend; the ids of check().
std::string require_backend(const CheckOptions& options);

}  // namespace quern::engine

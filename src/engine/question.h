// From the flags and a model's metadata to what the attention backends are asked. Called by
// check.cpp and startup.cpp, so that `quern check` and a start judge the same thing.
#pragma once

#include "attention/select.h"
#include "checkpoint/checkpoint.h"
#include "quern/engine.h"

namespace quern::engine {

// Reads the flags alone, so that a mistyped word costs no I/O. Throws: kInvalidFlagValue,
// kInvalidAttentionBackend.
attention::NeedsOptions needs_options(const EngineOptions& options);

// Reads a draft model's metadata where one is named. Throws: the ids of read_metadata() and
// attention::needs_of().
attention::Question question_of(const EngineOptions& options, const ModelConfig& target,
                                attention::Hardware hardware);

attention::Asked asked_backends(const EngineOptions& options);

// What the cache of a plan holds. "auto" is the dtype that the model computes in, where the
// backends keep it; a type that was asked for is never replaced. Requires: both halves of `plan`.
attention::KvType cache_type(const attention::Plan& plan, const attention::Needs& needs);

}  // namespace quern::engine

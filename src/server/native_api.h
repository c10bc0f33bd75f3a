// POST /generate: SGLang's native requests and answers. Called by connection.cpp on a worker
// thread.
#pragma once

#include <memory>
#include <string_view>

#include "quern/engine.h"
#include "server/generation.h"

namespace quern::server {

// Streamed answers are cumulative: each frame holds the whole text and all ids so far.
// Throws: kInvalidJson, kMissingField, kWrongFieldType, kFieldOutOfRange, kFieldNotServed.
std::unique_ptr<Generation> read_generate(std::string_view body, const EngineInfo& info);

}  // namespace quern::server

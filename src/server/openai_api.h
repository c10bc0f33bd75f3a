// POST /v1/chat/completions and /v1/completions: OpenAI's requests, answers and stream chunks.
// Called by connection.cpp on a worker thread.
#pragma once

#include <memory>
#include <string_view>

#include "quern/engine.h"
#include "server/generation.h"
#include "server/json_body.h"

namespace quern::server {

// Throws: kInvalidJson, kMissingField, kWrongFieldType, kFieldOutOfRange, kFieldNotServed,
// kServedModelUnknown.
std::unique_ptr<Generation> read_chat_completion(std::string_view body, const EngineInfo& info);
std::unique_ptr<Generation> read_completion(std::string_view body, const EngineInfo& info);

// The field `model` names the served one, or is empty, "default" or absent.
// Throws: kWrongFieldType, kServedModelUnknown.
void check_model(const Fields& fields, const EngineInfo& info);

}  // namespace quern::server

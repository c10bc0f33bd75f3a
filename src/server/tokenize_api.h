// POST /tokenize and /detokenize, also under /v1: text to token ids and back in SGLang's shapes.
// Called by pages.cpp on a worker thread.
#pragma once

#include <string_view>

#include "quern/engine.h"
#include "server/http_types.h"

namespace quern::server {

// {"prompt": a text or several, or "text", or "messages" with all that a chat may bring,
// "add_special_tokens"} → {"tokens", "count", "max_model_len"}; lists where several were given.
// Throws: kInvalidJson, kMissingField, kWrongFieldType, kFieldOutOfRange, kFieldNotServed,
// kServedModelUnknown. What the engine refuses is answered, with the field's name.
Reply tokenize_reply(std::string_view body, const Engine& engine);

// {"tokens": ids or a list of such, "skip_special_tokens"} → {"text"}, a list where several were
// given. Throws: as tokenize_reply.
Reply detokenize_reply(std::string_view body, const Engine& engine);

}  // namespace quern::server

// The `messages` array of a chat request. Used by openai_api and by /tokenize.
#pragma once

#include <vector>

#include "quern/types.h"
#include "server/json_body.h"

namespace quern::server {

// Content may be a string, null, or an array of text parts, which are joined by a space. The role
// `developer` is OpenAI's newer word for `system` and is read as that.
// Throws: kMissingField, kWrongFieldType, kFieldOutOfRange, kFieldNotServed.
std::vector<ChatMessage> read_messages(const Fields& fields);

}  // namespace quern::server

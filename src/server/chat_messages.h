// A conversation in a request: `messages`, and what the chat template gets beside them. Used by
// openai_api and by /tokenize.
#pragma once

#include "quern/types.h"
#include "server/json_body.h"

namespace quern::server {

// Fills messages and chat of the request from messages, tools, tool_choice, documents,
// chat_template_kwargs, reasoning_effort, add_generation_prompt and continue_final_message.
// Content may be a string, null, or an array of text parts. The role `developer` is OpenAI's newer
// word for `system` and is read as that; other members of messages go to the template as they are.
// enable_thinking is a variable of the template too. What tools and calls must be, tool_fields.h
// tells.
// Throws: kMissingField, kWrongFieldType, kFieldOutOfRange, kFieldNotServed.
void read_chat(const Fields& fields, Request* request);

}  // namespace quern::server

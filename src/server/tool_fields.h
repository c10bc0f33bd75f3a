// Tools in a request, and calls in its messages: what is wrong with them is said before a template
// or a parser meets them. Used by chat_messages and output_api.
#pragma once

#include <string>

#include "quern/types.h"
#include "server/json_body.h"

namespace quern::server {

inline constexpr size_t kMaxFunctionName = 256;  // bytes

// `tools` as JSON text, "" where it is absent or empty. Each tool is of type function, which may go
// unsaid, and has a name that no other has, and parameters that are a JSON schema: known words for
// types, schemas where schemas belong. Throws: kMissingField, kWrongFieldType, kFieldOutOfRange,
// kFieldNotServed.
std::string read_tools(const Fields& fields);

// Reads `tool_choice` ("auto", "none", "required" or a function) and parallel_tool_calls; false
// where the tools are not to be shown to the model. Throws: kWrongFieldType, kFieldOutOfRange (a
// function that is no tool, a call that is required without tools).
bool read_tool_choice(const Fields& fields, ChatOptions* chat);

// The calls of a message of the history. Their arguments are JSON objects, as such or as text; ""
// and null are none and become an object without members. Throws: as read_tools.
void check_calls(const Fields& message);
void mend_calls(Json* message);

}  // namespace quern::server

// /parse_function_call and /separate_reasoning: a finished text taken apart as a chat's answer
// would be. Called by pages.cpp.
#pragma once

#include <string_view>

#include "quern/engine.h"
#include "server/http_types.h"

namespace quern::server {

// {"text", "tools", "tool_call_parser"} → {"normal_text", "calls": [{"tool_index", "name",
// "parameters"}]}; tool_index is the place of the called tool in `tools`, parameters JSON text. The
// parser is the server's own where none is named. Throws: kMissingField, kWrongFieldType,
// kFieldOutOfRange, and of the tools what tool_fields.h says.
Reply parse_function_call(std::string_view body, const EngineInfo& info);

// {"text", "reasoning_parser", "return_blocks"} → {"reasoning_text", "text"} and, where blocks are
// asked for, "blocks": [{"type": "reasoning" or "text", "text"}]. Throws: as above.
Reply separate_reasoning(std::string_view body, const EngineInfo& info);

}  // namespace quern::server

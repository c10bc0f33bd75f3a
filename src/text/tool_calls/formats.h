// The formats of tool calls, as data, and the kinds of parsers that read them. Made by
// registry.cpp, which knows their names.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/tool_calls/call_stream.h"

namespace quern::text {

// Calls are JSON objects with a name and arguments, one or an array of them:
//   <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>
struct JsonFormat {
  std::vector<std::string_view> begin;  // any of these opens a block
  std::string_view end;                 // closes it; "": the JSON does
  bool bare = false;                    // JSON at the very beginning of the text is a block too
  bool name_is_key = false;             // {"f": {"a": 1}}
  bool named = false;                   // a block may also be f[ARGS]{"a": 1}
};
std::unique_ptr<ToolCallParser> make_json_calls(JsonFormat format,
                                                std::shared_ptr<const ToolSet> tools);

// The name stands outside, the arguments are JSON:
//   <calls><call>f<args>{"a": 1}</call></calls>
struct NamedFormat {
  std::string_view section_begin, section_end;  // around all calls; "" where there is none
  std::string_view call_begin;
  std::string_view name_end;  // what follows the name
  std::string_view args_end;  // stands between arguments and call_end, may be missing; or ""
  std::string_view call_end;
  bool name_is_id = false;  // functions.NAME:NUMBER, which is the id as well
};
std::unique_ptr<ToolCallParser> make_named_calls(NamedFormat format,
                                                 std::shared_ptr<const ToolSet> tools);

// Every parameter has tags of its own, and its value stands there as it is:
//   <call name="f"><parameter name="a">1</parameter></call>
struct TaggedFormat {
  std::string_view section_begin, section_end;  // around all calls; "" where there is none
  std::string_view call_begin;
  std::string_view name_end;  // "": the name ends before the next '<'
  std::string_view call_end;
  std::string_view key_begin, key_end;
  std::string_view value_begin;  // after key_end and blanks; "": at once
  std::string_view value_end;
  bool trims_newlines = false;  // one line break at each end of a value is the format's
  bool says_string = false;     // key_end is followed by string="true"> or string="false">
};
std::unique_ptr<ToolCallParser> make_tagged_calls(TaggedFormat format,
                                                  std::shared_ptr<const ToolSet> tools);

// Python's syntax, a list of calls with keyword arguments: [f(a=1), g(b='x')]
struct PythonicFormat {
  std::string_view begin, end;  // around the list, may be missing; "" where there is none
};
std::unique_ptr<ToolCallParser> make_pythonic_calls(PythonicFormat format,
                                                    std::shared_ptr<const ToolSet> tools);

// Gemma 4's calls.
std::unique_ptr<ToolCallParser> make_gemma_calls(std::shared_ptr<const ToolSet> tools);

// gpt-oss's messages.
std::unique_ptr<ToolCallParser> make_harmony_calls(std::shared_ptr<const ToolSet> tools);

}  // namespace quern::text

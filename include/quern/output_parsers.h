// What a chat model's text means: calls of tools, and reasoning apart from the answer. Streaming
// parsers, for the server and for programs that embed quern. Each takes text as it comes, in any
// pieces; what comes out, joined, is the same for every way to cut the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/types.h"

namespace quern {

struct ToolCallEvent {
  enum class Kind {
    kText,       // `text` belongs to the answer
    kBegin,      // a call begins: `index`, `name`, `id`
    kArguments,  // `text` is the next piece of its arguments, JSON
    kEnd,        // it ends; `complete` says whether it was written to its end
  };
  Kind kind = Kind::kText;
  int index = 0;           // of the call: 0, 1, …
  std::string text, name;  // name: one of the tools'
  std::string id;          // "" where the format has none
  bool complete = false;
};

// One answer's. What does not follow the format comes out as text, byte for byte, and so does a
// call of a function that no tool has. White space around calls belongs to the format. Once a call
// has begun, its arguments are given out as the model writes them; where these are not valid JSON,
// the format's end ends them, or where it has none, the first wrong byte. Never throws; holds back
// at most what may still become a call's head or a value of unknown type (8 MiB). One thread.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;
  // Appends what `piece` settles to `events`.
  virtual void push(std::string_view piece, std::vector<ToolCallEvent>* events) = 0;
  // The answer ended: what is held back comes out as text, a call that is open ends incomplete.
  virtual void finish(std::vector<ToolCallEvent>* events) = 0;
  // The format's marks. A tokenizer may have some as control tokens, which must not be left out of
  // the text that comes here.
  virtual std::vector<std::string_view> marks() const = 0;
};

// `format` is one of the names below, `tools` a JSON array of OpenAI's tools (or of bare
// functions); their schemas decide about types where a format does not tell a string from a number.
// Null where there is no such format.
std::unique_ptr<ToolCallParser> make_tool_call_parser(std::string_view format,
                                                      std::string_view tools);
// SGLang's names of --tool-call-parser that exist here, ordered.
std::vector<std::string_view> tool_call_formats();
// The format that a chat template teaches its model, judged by the marks in its text; "" where none
// is known.
std::string_view tool_call_format_of_template(std::string_view chat_template);

// One answer's. Reasoning stands at its beginning, between marks that are left out, as are blanks
// next to them; in gpt-oss's messages it stands in a channel of its own. Reasoning that is never
// closed is reasoning to the end. Where a call of a tool begins within reasoning, it ends there,
// and the call is content. Never throws; holds back at most the beginning of a mark and 4 KiB of
// blanks. One thread.
class ReasoningParser {
 public:
  virtual ~ReasoningParser() = default;
  // Appends what `piece` settles.
  virtual void push(std::string_view piece, std::string* reasoning, std::string* content) = 0;
  // The answer ended; what is held back comes out.
  virtual void finish(std::string* reasoning, std::string* content) = 0;
  virtual bool in_reasoning() const = 0;
  // As of ToolCallParser.
  virtual std::vector<std::string_view> marks() const = 0;
};

// `format` is one of the names below. Null where there is no such format.
std::unique_ptr<ReasoningParser> make_reasoning_parser(
    std::string_view format, ReasoningStart start = ReasoningStart::kUnstated);
// SGLang's names of --reasoning-parser that exist here, ordered.
std::vector<std::string_view> reasoning_formats();
// What the end of a prompt says to a format.
ReasoningStart reasoning_start(std::string_view format, std::string_view prompt_end);
// The marks that open and close reasoning; "" where the format has none or there is no such format.
std::string_view reasoning_begin_mark(std::string_view format);
std::string_view reasoning_end_mark(std::string_view format);

}  // namespace quern

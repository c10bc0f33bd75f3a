// An assistant's message as it is generated: text, reasoning and tool calls taken apart, as the
// deltas of a stream and as the whole message. One choice's; used by openai_api.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quern/engine.h"
#include "quern/output_parsers.h"
#include "server/json_body.h"

namespace quern::server {

struct ChatOutputOptions {
  std::string tool_format, tools;   // "": no calls are looked for
  bool parallel_tool_calls = true;  // false: calls after the first are left out
  std::string reasoning_format;     // "": reasoning stays in the text
  bool stream_reasoning = true;     // false: it comes as one delta when it has ended
};

// From separate_reasoning, stream_reasoning and parallel_tool_calls, and from the formats of the
// engine, where the request has tools that its model may call. Throws: kWrongFieldType.
ChatOutputOptions read_chat_output(const Fields& fields, const Request& request,
                                   const EngineInfo& info);

class ChatOutput {
 public:
  explicit ChatOutput(const ChatOutputOptions& options);

  // Takes the next event; returns the deltas that it makes, without role.
  std::vector<JsonOut> add(const TokenEvent& event);

  // {"role", "content", "reasoning_content", "tool_calls"}. Content is null beside calls that came
  // without text; the last two stand there where they are looked for and, of calls, found.
  JsonOut message() const;
  // "tool_calls" in place of "stop" where there are any.
  std::string_view finish_word(FinishReason reason) const;
  bool separates_reasoning() const { return separates_; }
  std::int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  struct Call {
    std::string id, name, arguments;
  };

  std::string reason(const TokenEvent& event, std::vector<JsonOut>* deltas);
  void take(const std::vector<ToolCallEvent>& events, std::vector<JsonOut>* deltas);
  void take_text(std::string_view text, std::vector<JsonOut>* deltas);

  const ChatOutputOptions options_;
  const bool separates_;
  std::unique_ptr<ReasoningParser> reasoning_parser_;  // made with the first event
  std::unique_ptr<ToolCallParser> tool_parser_;
  std::string content_, reasoning_;
  std::string held_reasoning_;
  std::vector<Call> calls_;
  std::int64_t reasoning_tokens_ = 0;
};

}  // namespace quern::server

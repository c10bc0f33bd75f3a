#include "server/chat_output.h"

#include <utility>

#include "server/generation.h"

namespace quern::server {

ChatOutputOptions read_chat_output(const Fields& fields, const Request& request,
                                   const EngineInfo& info) {
  ChatOutputOptions options;
  options.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  options.stream_reasoning = fields.boolean("stream_reasoning").value_or(true);
  if (fields.boolean("separate_reasoning").value_or(true)) {
    options.reasoning_format = info.reasoning_parser;
  }
  options.tools = request.chat.tools;
  if (!options.tools.empty()) options.tool_format = info.tool_call_parser;
  return options;
}

ChatOutput::ChatOutput(const ChatOutputOptions& options)
    : options_(options),
      separates_(!options.reasoning_format.empty()),
      tool_parser_(make_tool_call_parser(options.tool_format, options.tools)) {}

std::vector<JsonOut> ChatOutput::add(const TokenEvent& event) {
  std::vector<JsonOut> deltas;
  const bool last = event.finish_reason != FinishReason::kNone;
  const std::string text = separates_ ? reason(event, &deltas) : event.text;
  if (!tool_parser_) {
    take_text(text, &deltas);
    return deltas;
  }
  std::vector<ToolCallEvent> events;
  tool_parser_->push(text, &events);
  if (last) tool_parser_->finish(&events);
  take(events, &deltas);
  return deltas;
}

// Takes reasoning out of the event's text; returns the rest.
std::string ChatOutput::reason(const TokenEvent& event, std::vector<JsonOut>* deltas) {
  if (!reasoning_parser_) {
    reasoning_parser_ = make_reasoning_parser(options_.reasoning_format, event.reasoning_start);
  }
  std::string reasoning, content;
  if (reasoning_parser_->in_reasoning()) {
    reasoning_tokens_ += static_cast<std::int64_t>(event.token_ids.size());
  }
  reasoning_parser_->push(event.text, &reasoning, &content);
  const bool last = event.finish_reason != FinishReason::kNone;
  if (last) reasoning_parser_->finish(&reasoning, &content);
  reasoning_ += reasoning;
  held_reasoning_ += reasoning;
  const bool wait = !options_.stream_reasoning && !last && content.empty();
  if (!wait && !held_reasoning_.empty()) {
    deltas->push_back({{"reasoning_content", std::exchange(held_reasoning_, {})}});
  }
  return content;
}

void ChatOutput::take_text(std::string_view text, std::vector<JsonOut>* deltas) {
  if (text.empty()) return;
  content_ += text;
  deltas->push_back({{"content", text}});
}

void ChatOutput::take(const std::vector<ToolCallEvent>& events, std::vector<JsonOut>* deltas) {
  const auto delta = [&](int index, const JsonOut& call) {
    JsonOut indexed = {{"index", index}};
    indexed.update(call);
    deltas->push_back({{"tool_calls", JsonOut::array({std::move(indexed)})}});
  };
  for (const ToolCallEvent& event : events) {
    if (event.kind == ToolCallEvent::Kind::kText) {
      take_text(event.text, deltas);
      continue;
    }
    if (event.index > 0 && !options_.parallel_tool_calls) continue;
    if (event.kind == ToolCallEvent::Kind::kBegin) {
      calls_.push_back({event.id.empty() ? fresh_id("call_") : event.id, event.name, ""});
      delta(event.index, {{"id", calls_.back().id},
                          {"type", "function"},
                          {"function", {{"name", event.name}, {"arguments", ""}}}});
    } else if (event.kind == ToolCallEvent::Kind::kArguments) {
      calls_.back().arguments += event.text;
      delta(event.index, {{"function", {{"arguments", event.text}}}});
    }
  }
}

JsonOut ChatOutput::message() const {
  JsonOut message = {{"role", "assistant"}, {"content", content_}};
  if (content_.empty() && !calls_.empty()) message["content"] = nullptr;
  if (separates_) {
    message["reasoning_content"] = reasoning_.empty() ? JsonOut(nullptr) : JsonOut(reasoning_);
  }
  if (calls_.empty()) return message;
  JsonOut list = JsonOut::array();
  for (const Call& call : calls_) {
    list.push_back({{"id", call.id},
                    {"type", "function"},
                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  message["tool_calls"] = std::move(list);
  return message;
}

std::string_view ChatOutput::finish_word(FinishReason reason) const {
  if (reason == FinishReason::kLength) return "length";
  return calls_.empty() ? "stop" : "tool_calls";
}

}  // namespace quern::server

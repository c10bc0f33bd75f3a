#include "load/wire_api.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "load/bounded_json.h"

namespace quern::load {
namespace {

constexpr std::size_t kMaxAnswerBytes = 64 << 20;
constexpr std::size_t kMaxReasonBytes = 200;
constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;  // no server counts further

const Json* at(const Json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

std::string text_at(const Json& json, std::string_view name) {
  const Json* value = at(json, name);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

// A count of tokens; -1 where there is none that makes sense.
std::int64_t count_at(const Json& json, std::string_view name) {
  const Json* value = at(json, name);
  if (!value || !value->is_number_integer()) return -1;
  const auto count = value->get<std::int64_t>();
  return count >= 0 && count < kMaxCount ? count : -1;
}

std::string joined(const std::vector<Message>& history) {
  std::string text;
  for (const Message& message : history) {
    if (!text.empty() && message.role != "assistant") text += '\n';
    text += message.content;
  }
  return text;
}

// The message of an error in any of the shapes that servers use.
std::string message_of(const Json& json) {
  const Json* error = at(json, "error");
  if (error && error->is_string()) return error->get<std::string>();
  for (const Json* place : {error, &json}) {
    if (!place) continue;
    for (const char* name : {"message", "detail"}) {
      std::string text = text_at(*place, name);
      if (!text.empty()) return text;
    }
  }
  return error ? error->dump(-1, ' ', false, Json::error_handler_t::replace) : std::string();
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  if (text.size() > kMaxReasonBytes) text = text.substr(0, kMaxReasonBytes) + "…";
  return valid_utf8(text);
}

}  // namespace

std::string_view path_of(Api api) {
  switch (api) {
    case Api::kChat: return "/v1/chat/completions";
    case Api::kCompletions: return "/v1/completions";
    case Api::kGenerate: return "/generate";
  }
  return "/";
}

std::string request_body(const Options& options, const std::string& model,
                         const std::vector<Message>& history, std::int64_t max_tokens) {
  Json body = Json::object();
  if (options.api == Api::kGenerate) {
    body["text"] = joined(history);
    body["sampling_params"] = {{"temperature", options.temperature},
                               {"max_new_tokens", max_tokens}};
    if (options.ignore_eos) body["sampling_params"]["ignore_eos"] = true;
  } else {
    body["model"] = model;
    if (options.api == Api::kChat) {
      Json messages = Json::array();
      for (const Message& message : history) {
        messages.push_back({{"role", message.role}, {"content", message.content}});
      }
      body["messages"] = std::move(messages);
    } else {
      body["prompt"] = joined(history);
    }
    body["temperature"] = options.temperature;
    body["max_tokens"] = max_tokens;
    if (options.ignore_eos) body["ignore_eos"] = true;
    if (options.stream) body["stream_options"] = {{"include_usage", true}};
  }
  body["stream"] = options.stream;
  if (!options.extra_body.empty()) {
    const Json extra = parse_bounded(options.extra_body);
    for (const auto& [name, value] : extra.items()) body[name] = value;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool Answer::fail(std::string reason) {
  failure_ = one_line(std::move(reason));
  return false;
}

bool Answer::add(std::string_view json_text, bool whole) {
  added_ = 0;
  if (!whole && json_text == "[DONE]") return done_ = true;
  const Json json = parse_bounded(json_text);
  if (!json.is_object()) return fail(fmt::format("it sent no JSON: {}", json_text.substr(0, 80)));
  if (at(json, "error")) return fail("it sent an error: " + message_of(json));

  std::string added;
  const std::int64_t before = output_tokens_;
  const Json* counts = at(json, "usage");
  if (api_ == Api::kGenerate) {
    std::string text = text_at(json, "text");
    // The text so far, unless the server sends only what is new.
    added = text.starts_with(text_) ? text.substr(text_.size()) : std::move(text);
    counts = at(json, "meta_info");
    finished_ = finished_ || (counts && at(*counts, "finish_reason"));
  } else if (const Json* choices = at(json, "choices"); choices && choices->is_array()) {
    for (const Json& choice : *choices) {
      finished_ = finished_ || at(choice, "finish_reason");
      added += text_at(choice, "text");
      for (const char* part : {"delta", "message"}) {
        const Json* message = at(choice, part);
        if (!message) continue;
        added += text_at(*message, "reasoning_content") + text_at(*message, "content");
      }
    }
  }
  if (text_.size() + added.size() > kMaxAnswerBytes) {
    return fail(fmt::format("its answer is longer than {} bytes", kMaxAnswerBytes));
  }
  text_ += added;
  if (counts) {
    const std::int64_t prompt = count_at(*counts, "prompt_tokens");
    const std::int64_t output = count_at(*counts, "completion_tokens");
    counted_ = counted_ || output >= 0;
    if (prompt >= 0) prompt_tokens_ = prompt;
    if (output >= 0) output_tokens_ = output;
    const Json* details = at(*counts, "prompt_tokens_details");
    const std::int64_t cached = count_at(details ? *details : *counts, "cached_tokens");
    if (cached >= 0) cached_tokens_ = cached;
  }
  if (!added.empty()) {
    ++events_;
    // A token has a byte at least, whatever the server counts.
    added_ = api_ == Api::kGenerate
                 ? std::clamp<std::int64_t>(output_tokens_ - before, 1,
                                            static_cast<std::int64_t>(added.size()))
                 : 1;
  }
  if (whole) done_ = finished_ = true;
  return true;
}

std::string error_text(std::string_view body) {
  const Json json = parse_bounded(body);
  const std::string message = message_of(json);
  return one_line(message.empty() ? std::string(body.substr(0, 2 * kMaxReasonBytes)) : message);
}

std::string first_model(std::string_view body) {
  const Json json = parse_bounded(body);
  const Json* data = at(json, "data");
  if (!data || !data->is_array() || data->empty()) return "";
  return text_at(data->front(), "id");
}

}  // namespace quern::load

#include "server/logprob_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/errors/server.h"

namespace quern::server {
namespace {

// A name that is unique among the tokens of a list, as OpenAI writes those that are no text alone.
std::string key_of(const LogprobToken& token) {
  std::string text = valid_utf8(token.bytes);
  if (text == token.bytes && !text.empty()) return text;
  if (token.bytes.empty()) return fmt::format("token:{}", token.id);
  text = "bytes:";
  for (const char byte : token.bytes) {
    text += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  }
  return text;
}

JsonOut bytes_of(const LogprobToken& token) {
  JsonOut bytes = JsonOut::array();
  if (!token.written) return bytes;
  for (const char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

JsonOut chat_entry(const LogprobToken& token) {
  return {
      {"token", valid_utf8(token.bytes)}, {"logprob", token.logprob}, {"bytes", bytes_of(token)}};
}

// The likeliest tokens, and the one that was drawn behind them where it is not among them.
std::vector<LogprobToken> with_drawn(const TokenLogprobs& at) {
  std::vector<LogprobToken> all = at.top;
  const auto is_drawn = [&](const LogprobToken& other) { return other.id == at.token.id; };
  if (std::none_of(all.begin(), all.end(), is_drawn)) all.push_back(at.token);
  return all;
}

}  // namespace

LogprobOptions read_native_logprobs(const Fields& fields, const EngineInfo& info) {
  LogprobOptions options;
  const bool asked = fields.boolean("return_logprob").value_or(false);
  const auto start = fields.integer("logprob_start_len", -1, info.context_length);
  const auto top = fields.integer("top_logprobs_num", 0, kMaxNativeTopLogprobs);
  std::vector<std::int32_t> ids;
  if (const Json* value = fields.find("token_ids_logprob")) {
    if (value->size() > kMaxLogprobIds) {
      fields.out_of_range("token_ids_logprob", fmt::format("at most {} ids", kMaxLogprobIds),
                          *value);
    }
    ids = token_ids(*value, fields.param("token_ids_logprob"));
    for (const std::int32_t id : ids) {
      if (id < info.vocab) continue;
      fields.out_of_range("token_ids_logprob", fmt::format("ids below {}", info.vocab), Json(id));
    }
  }
  if (!asked) return options;
  options.output = true;
  options.prompt_from = start.value_or(-1);
  options.top = top.value_or(0);
  options.token_ids = std::move(ids);
  return options;
}

LogprobOptions read_chat_logprobs(const Fields& fields) {
  LogprobOptions options;
  options.output = fields.boolean("logprobs").value_or(false);
  options.top = fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  if (options.top > 0 && !options.output) {
    fields.out_of_range("top_logprobs", "absent unless logprobs is true",
                        *fields.find("top_logprobs"));
  }
  return options;
}

LogprobOptions read_completion_logprobs(const Fields& fields, bool echo) {
  LogprobOptions options;
  const Json* asked = fields.find("logprobs");
  if (!asked || *asked == false) return options;
  options.output = true;
  options.top = fields.integer("logprobs", 0, kMaxTopLogprobs).value_or(0);
  if (echo) options.prompt_from = 0;
  return options;
}

void NativeLogprobs::add(const TokenEvent& event) {
  add(event.prompt_logprobs, "input_");
  add(event.logprobs, "output_");
}

void NativeLogprobs::add(const std::vector<TokenLogprobs>& tokens, const char* side) {
  if (tokens.empty()) return;
  const auto entry = [&](const LogprobToken& token, bool predicted) {
    return JsonOut::array({predicted ? JsonOut(token.logprob) : JsonOut(nullptr), token.id,
                           with_text_ ? JsonOut(valid_utf8(token.bytes)) : JsonOut(nullptr)});
  };
  const auto list = [&](const TokenLogprobs& at, const std::vector<LogprobToken>& from) {
    if (!at.predicted) return JsonOut(nullptr);
    JsonOut made = JsonOut::array();
    for (const LogprobToken& token : from) made.push_back(entry(token, true));
    return made;
  };
  const std::string name(side);
  JsonOut& chosen = lists_[name + "token_logprobs"];
  for (const TokenLogprobs& at : tokens) chosen.push_back(entry(at.token, at.predicted));
  if (options_.top > 0) {
    JsonOut& top = lists_[name + "top_logprobs"];
    for (const TokenLogprobs& at : tokens) top.push_back(list(at, at.top));
  }
  if (!options_.token_ids.empty()) {
    JsonOut& wanted = lists_[name + "token_ids_logprobs"];
    for (const TokenLogprobs& at : tokens) wanted.push_back(list(at, at.wanted));
  }
}

void NativeLogprobs::put(JsonOut* meta) const {
  if (!options_.any()) return;
  for (const char* side : {"input_", "output_"}) {
    const auto put_list = [&](const char* list) {
      const auto found = lists_.find(std::string(side) + list);
      (*meta)[std::string(side) + list] = found == lists_.end() ? JsonOut::array() : *found;
    };
    put_list("token_logprobs");
    if (options_.top > 0) put_list("top_logprobs");
    if (!options_.token_ids.empty()) put_list("token_ids_logprobs");
  }
}

std::vector<TokenLogprobs> answered_logprobs(const TokenEvent& event) {
  std::vector<TokenLogprobs> tokens = event.logprobs;
  const bool by_token = event.finish_reason == FinishReason::kStop && event.matched_stop.empty();
  if (by_token && !tokens.empty()) tokens.pop_back();
  return tokens;
}

JsonOut chat_logprobs(std::span<const TokenLogprobs> tokens, const LogprobOptions& options) {
  JsonOut content = JsonOut::array();
  for (const TokenLogprobs& at : tokens) {
    JsonOut entry = chat_entry(at.token);
    entry["top_logprobs"] = JsonOut::array();
    if (options.top > 0) {
      for (const LogprobToken& token : with_drawn(at)) {
        entry["top_logprobs"].push_back(chat_entry(token));
      }
    }
    content.push_back(std::move(entry));
  }
  return content;
}

JsonOut completion_logprobs(std::span<const TokenLogprobs> tokens, const LogprobOptions& options,
                            std::int64_t* offset) {
  JsonOut names = JsonOut::array(), values = JsonOut::array(), top = JsonOut::array(),
          offsets = JsonOut::array();
  for (const TokenLogprobs& at : tokens) {
    names.push_back(valid_utf8(at.token.bytes));
    values.push_back(at.predicted ? JsonOut(at.token.logprob) : JsonOut(nullptr));
    offsets.push_back(*offset);
    if (at.token.written) {
      for (const char byte : at.token.bytes) {
        *offset += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;  // begins a character
      }
    }
    if (options.top == 0) continue;
    JsonOut list = at.predicted ? JsonOut::object() : JsonOut(nullptr);
    for (const LogprobToken& token : at.predicted ? with_drawn(at) : std::vector<LogprobToken>()) {
      list[key_of(token)] = token.logprob;
    }
    top.push_back(std::move(list));
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", options.top > 0 ? std::move(top) : JsonOut(nullptr)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace quern::server

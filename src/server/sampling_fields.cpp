#include "server/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/errors/server.h"

namespace quern::server {
namespace {

constexpr double kMaxTemperature = 100.0;
constexpr double kMaxBias = 100.0;
constexpr double kGreedyTemperature = 1e-6;  // below, logits / temperature may overflow

// A text or several.
std::vector<std::string> read_texts(const Fields& fields, const char* name, size_t most_bytes) {
  const Json* value = fields.find(name);
  if (!value) return {};
  std::vector<std::string> texts;
  if (value->is_string()) {
    texts.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    if (value->size() > kMaxStopStrings) {
      fields.out_of_range(name, fmt::format("at most {} strings", kMaxStopStrings), *value);
    }
    for (const Json& text : *value) {
      if (!text.is_string()) fields.wrong_type(name, "a string or an array of strings", text);
      texts.push_back(text.get<std::string>());
    }
  } else {
    fields.wrong_type(name, "a string or an array of strings", *value);
  }
  for (const std::string& text : texts) {
    if (text.empty() || text.size() > most_bytes) {
      fields.out_of_range(name, fmt::format("strings of 1 to {} bytes", most_bytes), *value);
    }
  }
  return texts;
}

bool asks_for_nothing(const Json& value, Harmless harmless) {
  switch (harmless) {
    case Harmless::kNothing: return false;
    case Harmless::kFalse: return value == false;
    case Harmless::kZero: return value.is_number() && value == 0;
    case Harmless::kOne: return value.is_number() && value == 1;
    case Harmless::kMinusOne: return value.is_number() && value == -1;
    case Harmless::kEmpty:
      return value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
    case Harmless::kNoneWord: return value == "none";
    case Harmless::kPlainText:
      return value == Json::array({"text"}) || value == Json{{"type", "text"}};
  }
  return false;
}

}  // namespace

void read_scheduling(const Fields& fields, Request* request) {
  constexpr std::int64_t kMostPriority = 1'000'000'000;
  request->priority = fields.integer("priority", -kMostPriority, kMostPriority).value_or(0);
  request->cache_space.clear();
  for (const char* name : {"cache_salt", "extra_key"}) {
    const std::string key = fields.text(name).value_or("");
    if (key.size() > kMaxCacheKeyBytes) {
      fields.out_of_range(name, fmt::format("at most {} bytes", kMaxCacheKeyBytes),
                          Json(key.size()));
    }
    // With its length and name before it no key is taken for another, or for two put together.
    if (!key.empty()) request->cache_space += fmt::format("{}:{}:{}", name, key.size(), key);
  }
}

SamplingParams read_sampling(const Fields& fields, const SamplingParams& defaults) {
  SamplingParams sampling;
  sampling.temperature =
      fields.number("temperature", 0.0, kMaxTemperature).value_or(defaults.temperature);
  sampling.top_p = fields.number("top_p", 0.0, 1.0).value_or(defaults.top_p);
  sampling.top_k = fields.integer("top_k", -1, std::numeric_limits<std::int64_t>::max())
                       .value_or(defaults.top_k);
  sampling.min_p = fields.number("min_p", 0.0, 1.0).value_or(defaults.min_p);
  if (sampling.temperature < kGreedyTemperature || sampling.top_p == 0.0) {
    sampling.temperature = 0.0;
    sampling.top_p = 1.0;
  }
  sampling.stop = read_texts(fields, "stop", kMaxStopStringBytes);
  sampling.stop_regex = read_texts(fields, "stop_regex", kMaxStopRegexBytes);
  if (const Json* ids = fields.find("stop_token_ids")) {
    if (ids->size() > kMaxStopTokens) {
      fields.out_of_range("stop_token_ids", fmt::format("at most {} ids", kMaxStopTokens), *ids);
    }
    sampling.stop_token_ids = token_ids(*ids, fields.param("stop_token_ids"));
  }
  sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  sampling.no_stop_trim = fields.boolean("no_stop_trim").value_or(false);
  sampling.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  sampling.spaces_between_special_tokens =
      fields.boolean("spaces_between_special_tokens").value_or(true);
  return sampling;
}

void read_special_tokens(const Fields& fields, Request* request) {
  const std::optional<bool> asked = fields.boolean("add_special_tokens");
  request->add_special_tokens = asked.value_or(true);
  request->parse_special_tokens = asked.value_or(false);
}

void read_edits(const Fields& fields, std::string_view min_tokens, const EngineInfo& info,
                SamplingParams* sampling) {
  sampling->presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  sampling->frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  sampling->repetition_penalty = fields.number("repetition_penalty", 0, 2).value_or(1);
  if (sampling->repetition_penalty == 0) {
    fields.out_of_range("repetition_penalty", "above 0", *fields.find("repetition_penalty"));
  }
  const std::int64_t most =
      sampling->max_tokens < 0 ? std::numeric_limits<std::int64_t>::max() : sampling->max_tokens;
  sampling->min_tokens = fields.integer(min_tokens, 0, most).value_or(0);
  const Json* bias = fields.find("logit_bias");
  if (!bias) return;
  if (!bias->is_object()) fields.wrong_type("logit_bias", "an object", *bias);
  for (const auto& [key, value] : bias->items()) {
    std::int32_t id = -1;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || stop != end || id < 0 || id >= info.vocab) {
      fields.out_of_range("logit_bias", fmt::format("token ids from 0 to {}", info.vocab - 1), key);
    }
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (!(number >= -kMaxBias && number <= kMaxBias)) {
      fields.out_of_range("logit_bias", fmt::format("numbers from {} to {}", -kMaxBias, kMaxBias),
                          value);
    }
    sampling->logit_bias.emplace_back(id, static_cast<float>(number));
  }
}

void refuse_unserved(const Fields& fields, std::span<const UnservedField> unserved) {
  for (const UnservedField& field : unserved) {
    const Json* value = fields.find(field.name);
    if (!value || asks_for_nothing(*value, field.harmless)) continue;
    throw Error(errors::kFieldNotServed,
                {{"param", fields.param(field.name)}, {"expected", field.instead}});
  }
}

}  // namespace quern::server

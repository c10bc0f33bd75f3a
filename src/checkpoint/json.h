// JSON from outside: config.json, generation_config.json, tokenizer_config.json and the index of a
// sharded checkpoint. Nesting is capped before the parser runs. Called by the readers of this
// folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace quern::checkpoint {

inline constexpr int kMaxJsonDepth = 64;

// The object in `text`; `file` is for messages.
// Throws: kCheckpointJsonInvalid for a syntax error, invalid UTF-8, nesting deeper than
// kMaxJsonDepth, or anything but an object.
nlohmann::json parse_json_object(std::string_view text, const std::string& file);

// `value` as JSON text for messages, cut to a readable length; valid UTF-8.
std::string json_excerpt(const nlohmann::json& value);

}  // namespace quern::checkpoint

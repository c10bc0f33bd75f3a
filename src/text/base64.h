// Base64 of tokenizer files. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quern::text {

// The bytes; nullopt where `text` is not base64. Padding may be left out.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace quern::text

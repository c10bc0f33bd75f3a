// From the regex dialect of tokenizer.json (Oniguruma, Ruby syntax) to PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace quern::text {

// The same pattern for PCRE2: white space as Unicode's White_Space property (PCRE2's own \s also
// takes U+180E). Throws: kTokenizerUnsupported for escapes, class operators and option letters that
// mean something else there; `origin` is for the message.
std::string to_pcre_pattern(std::string_view pattern, std::string_view origin);

}  // namespace quern::text

// Text in the forms that pages and addresses need: HTML, query strings, shell words. Used by the
// pages of this folder.
#pragma once

#include <string>
#include <string_view>

namespace quern::server {

// Safe as text and inside quoted attributes.
std::string html_escaped(std::string_view text);

// %41 as A; what is no escape stays as it is. `plus_is_blank` as in a query.
std::string percent_decoded(std::string_view text, bool plus_is_blank = false);
// Everything but letters, digits and -._~ escaped.
std::string percent_encoded(std::string_view text);

// The first value of a name in "a=1&b=2", decoded; "" where it does not stand there.
std::string query_value(std::string_view query, std::string_view name);

// As one word of a POSIX shell, in single quotes.
std::string shell_quoted(std::string_view text);

}  // namespace quern::server

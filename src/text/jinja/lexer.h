// Cuts Jinja source into tokens, with the white space control that chat templates are written for
// (trim_blocks, lstrip_blocks, no newline at the end). Called by the parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace quern::text::jinja {

enum class TokenKind : std::uint8_t {
  kText,
  kPrintBegin,
  kPrintEnd,
  kStatementBegin,
  kStatementEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::uint32_t at;    // byte of the source
  std::string text{};  // of strings their value, escapes resolved
  Int integer = 0;
  double real = 0;
};

// The source with \n as its only line end and none at its end, which positions refer to.
std::string normal_newlines(std::string_view source);

// Requires: `source` went through normal_newlines. The last token is kEnd, with the place of the
// one before. Throws: kChatTemplateUnsupported.
std::vector<Token> tokenize(std::string_view source);

}  // namespace quern::text::jinja

// Cuts Jinja text into literal text, printed expressions and statements, with the white space
// control that chat templates are written for (trim_blocks, lstrip_blocks, no trailing newline).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::text {

struct JinjaToken {
  enum class Kind { kName, kString, kNumber, kOperator };
  Kind kind;
  std::string text;  // of a string: its value, escapes resolved

  bool is(Kind wanted, std::string_view value) const { return kind == wanted && text == value; }
};

struct JinjaNode {
  enum class Kind { kText, kPrint, kStatement };
  Kind kind;
  std::string text;                // of kText; never empty
  std::vector<JinjaToken> tokens;  // of the others
};

// nullopt where the text is not Jinja, or has what no plain template needs: escapes other than
// \n \t \r \\ \' \", letters beyond ASCII outside of strings.
std::optional<std::vector<JinjaNode>> lex_jinja(std::string_view source);

}  // namespace quern::text

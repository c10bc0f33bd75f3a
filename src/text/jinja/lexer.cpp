#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/errors/text.h"
#include "text/jinja/position.h"
#include "text/jinja/unicode.h"
#include "text/utf8.h"

namespace quern::text::jinja {
namespace {

constexpr Int kMaxInt = ~(Int{1} << 127);

bool digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (digit(c)) return c - '0';
  if ((c | 32) >= 'a' && (c | 32) <= 'f') return (c | 32) - 'a' + 10;
  return 99;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text();
    add(TokenKind::kEnd, tokens_.empty() ? 0 : tokens_.back().at);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view reason) const {
    fail_at(errors::kChatTemplateUnsupported, source_, static_cast<std::uint32_t>(at), reason);
  }

  Token& add(TokenKind kind, std::size_t at) {
    return tokens_.emplace_back(Token{kind, static_cast<std::uint32_t>(at)});
  }

  bool starts(std::string_view word) const { return source_.substr(at_).starts_with(word); }
  char peek(std::size_t distance = 0) const {
    return at_ + distance < source_.size() ? source_[at_ + distance] : '\0';
  }

  void skip_space() { at_ = source_.size() - strip_front(source_.substr(at_)).size(); }

  // Behind the end of a tag: `-` takes all white space along, a statement's end one newline.
  void after_tag(char sign, bool trim_newline) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && trim_newline && peek() == '\n') {
      ++at_;
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  // Adds text up to `end`, less what the sign of the tag behind it, or lstrip_blocks, takes off.
  void add_text(std::size_t begin, std::size_t end, char sign, bool lstrip) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      text = strip_back(text);
    } else if (sign != '+' && lstrip) {
      const std::size_t line = text.rfind('\n') + 1;
      const bool whole_line = line > 0 || line_starting_;
      if (whole_line && strip_front(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::kText, begin).text = text;
  }

  static char sign_of(char c) { return c == '-' || c == '+' ? c : '\0'; }

  // Literal text up to the next tag, and the tag.
  void text() {
    const std::size_t begin = at_;
    std::size_t open = begin;
    while (true) {
      open = source_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= source_.size()) {
        add(TokenKind::kText, begin).text = source_.substr(begin);
        at_ = source_.size();
        return;
      }
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    at_ = open + 2;
    const char kind = source_[open + 1];
    const char sign = sign_of(peek());
    add_text(begin, open, sign, kind != '{');
    if (sign != '\0') ++at_;
    if (kind == '#') {
      comment(open);
    } else if (kind == '{') {
      add(TokenKind::kPrintBegin, open);
      tag(false);
    } else if (!raw(open)) {
      add(TokenKind::kStatementBegin, open);
      tag(true);
    }
  }

  void comment(std::size_t open) {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail(open, "the comment is never closed");
    const char sign = end > at_ ? sign_of(source_[end - 1]) : '\0';
    at_ = end + 2;
    after_tag(sign, true);
  }

  // {% raw %} … {% endraw %}; the place is behind the opening mark.
  bool raw(std::size_t open) {
    const std::size_t before = at_;
    skip_space();
    if (!starts("raw")) return at_ = before, false;
    at_ += 3;
    skip_space();
    const char sign = peek() == '-' ? '-' : '\0';
    if (sign != '\0') ++at_;
    if (!starts("%}")) return at_ = before, false;
    at_ += 2;
    after_tag(sign, false);
    const std::size_t begin = at_;
    for (std::size_t end = source_.find("{%", at_); end != std::string_view::npos;
         end = source_.find("{%", end + 1)) {
      at_ = end + 2;
      const char left = sign_of(peek());
      if (left != '\0') ++at_;
      skip_space();
      if (!starts("endraw")) continue;
      at_ += 6;
      skip_space();
      const char right = sign_of(peek());
      if (right != '\0') ++at_;
      if (!starts("%}")) continue;
      at_ += 2;
      add_text(begin, end, left, true);
      after_tag(right, true);
      return true;
    }
    fail(open, "the raw block is never closed");
  }

  bool tag_end(bool statement) {
    const std::string_view mark = statement ? "%}" : "}}";
    const std::size_t begin = at_;
    const char sign = peek() == '-' || (statement && peek() == '+') ? peek() : '\0';
    if (sign != '\0') ++at_;
    if (!starts(mark)) return at_ = begin, false;
    add(statement ? TokenKind::kStatementEnd : TokenKind::kPrintEnd, begin);
    at_ += 2;
    after_tag(sign, statement);
    return true;
  }

  void tag(bool statement) {
    std::string open;  // the closing brackets that are due
    while (at_ < source_.size()) {
      if (open.empty() && tag_end(statement)) return;
      const Char c = char_at(source_, at_);
      if (is_space(c.code)) {
        skip_space();
      } else if (c.code < 0x80 && digit(peek())) {
        number();
      } else if (is_identifier(c.code)) {
        name();
      } else if (c.code == '\'' || c.code == '"') {
        string();
      } else {
        symbol(open);
      }
    }
  }

  void name() {
    const std::size_t begin = at_;
    while (at_ < source_.size()) {
      const Char c = char_at(source_, at_);
      if (!is_identifier(c.code)) break;
      at_ += c.size;
    }
    add(TokenKind::kName, begin).text = source_.substr(begin, at_ - begin);
  }

  // Appends digits, which single underscores may part.
  void digits(int base, std::string& out) {
    while (digit_value(peek()) < base ||
           (peek() == '_' && !out.empty() && digit_value(peek(1)) < base)) {
      if (peek() != '_') out += peek();
      ++at_;
    }
  }

  Int whole(const std::string& digits, int base, std::size_t begin) const {
    Int value = 0;
    for (const char c : digits) {
      const int next = digit_value(c);
      if (value > (kMaxInt - next) / base) fail(begin, "the number has more than 128 bits");
      value = value * base + next;
    }
    return value;
  }

  void number() {
    const std::size_t begin = at_;
    const char mark = static_cast<char>(peek(1) | 32);
    const int base = peek() != '0' ? 10 : mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10 && digit_value(peek(2)) < base) {
      at_ += 2;
      std::string found;
      digits(base, found);
      add(TokenKind::kInteger, begin).integer = whole(found, base, begin);
      return;
    }
    std::string found;
    digits(10, found);
    const std::string integer = found;
    const bool after_dot = begin > 0 && source_[begin - 1] == '.';  // x.0.1 has no fraction
    bool real = false;
    if (!after_dot && peek() == '.' && digit(peek(1))) {
      ++at_;
      std::string fraction;
      digits(10, fraction);
      found += "." + fraction;
      real = true;
    }
    const bool sign = peek(1) == '+' || peek(1) == '-';
    if (!after_dot && (peek() | 32) == 'e' && digit(peek(sign ? 2 : 1))) {
      found += 'e';
      if (sign) found += peek(1);
      at_ += sign ? 2 : 1;
      std::string exponent;
      digits(10, exponent);
      found += exponent;
      real = true;
    }
    if (real) {
      add(TokenKind::kFloat, begin).real = std::strtod(found.c_str(), nullptr);
    } else {
      add(TokenKind::kInteger, begin).integer = whole(integer, 10, begin);
    }
  }

  void string() {
    const std::size_t begin = at_;
    const char quote = peek();
    std::string value;
    for (++at_; at_ < source_.size() && peek() != quote;) {
      if (peek() == '\\' && at_ + 1 < source_.size()) {
        escape(value);
      } else {
        value += source_[at_++];
      }
    }
    if (at_ >= source_.size()) fail(begin, "the string is never closed");
    ++at_;
    add(TokenKind::kString, begin).text = std::move(value);
  }

  void escape(std::string& out) {
    const std::size_t begin = at_;
    const char c = peek(1);
    at_ += 2;
    constexpr std::string_view kPlain = "\\'\"abfnrtv", kMeaning = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t found = kPlain.find(c); found != std::string_view::npos) {
      out += kMeaning[found];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8, begin, out);
    } else if (c >= '0' && c <= '7') {
      char32_t code = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) {
        code = code * 8 + static_cast<char32_t>(source_[at_++] - '0');
      }
      append_char(out, code);
    } else if (c == 'N') {
      fail(begin, "characters by their name (\\N) are not served");
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }

  void code_point(int digits, std::size_t begin, std::string& out) {
    char32_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const int value = digit_value(peek());
      if (value > 15) fail(begin, "the escape lacks digits");
      code = code * 16 + static_cast<char32_t>(value);
      ++at_;
    }
    if (code > 0x10FFFF) fail(begin, "there is no such character");
    // One half of a pair is no character by itself.
    if (code >= 0xD800 && code < 0xE000) {
      out += kReplacement;
    } else {
      append_char(out, code);
    }
  }

  void symbol(std::string& open) {
    constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    std::size_t size = 0;
    for (const std::string_view word : kDouble) {
      if (starts(word)) size = 2;
    }
    if (size == 0 &&
        std::string_view("+-/*%~[](){}<>=.:|,;").find(peek()) != std::string_view::npos) {
      size = 1;
    }
    const std::string word(source_.substr(at_, std::max<std::size_t>(size, 1)));
    if (size == 0) {
      const std::string shown(source_.substr(at_, char_at(source_, at_).size));
      fail(at_, fmt::format("the character {} has no meaning here", quern::valid_utf8(shown)));
    }
    if (word == "(") open += ')';
    if (word == "[") open += ']';
    if (word == "{") open += '}';
    if (word == ")" || word == "]" || word == "}") {
      if (open.empty()) fail(at_, fmt::format("unexpected '{}'", word));
      if (open.back() != word[0]) {
        fail(at_, fmt::format("unexpected '{}', expected '{}'", word, open.back()));
      }
      open.pop_back();
    }
    add(TokenKind::kOperator, at_).text = word;
    at_ += size;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starting_ = true;  // the text that follows begins a line
  std::vector<Token> tokens_;
};

}  // namespace

std::string normal_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace quern::text::jinja

#include "text/jinja_lexer.h"

#include <algorithm>

namespace quern::text {
namespace {

constexpr std::size_t kMaxSource = std::size_t{1} << 20;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// One form of newline, and none at the end.
std::string normalised(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  bool run(std::vector<JinjaNode>& nodes) {
    while (at_ < source_.size()) {
      const std::size_t open = find_tag();
      std::string_view text = source_.substr(at_, open - at_);
      if (open == source_.size()) {
        at_ = open;
        return add_text(text, nodes);
      }
      const char tag = source_[open + 1];
      const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
      const bool signed_tag = sign == '-' || sign == '+';
      if (sign == '-') {
        while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
      } else if (sign != '+' && tag != '{') {
        strip_line(text);
      }
      if (!add_text(text, nodes)) return false;
      at_ = open + 2 + (signed_tag ? 1 : 0);
      if (tag == '#' ? !skip_comment() : !read_tag(tag, nodes)) return false;
    }
    return true;
  }

 private:
  std::size_t find_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i) {
      const char next = source_[i + 1];
      if (source_[i] == '{' && (next == '{' || next == '%' || next == '#')) return i;
    }
    return source_.size();
  }

  // Blanks between the start of a line and a statement are not text.
  void strip_line(std::string_view& text) const {
    const std::size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return;
    const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (std::all_of(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(), is_space)) {
      text = text.substr(0, begin);
    }
  }

  static bool add_text(std::string_view text, std::vector<JinjaNode>& nodes) {
    if (text.empty()) return true;
    if (std::any_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; })) return false;
    nodes.push_back({JinjaNode::Kind::kText, std::string(text), {}});
    return true;
  }

  // Behind the end of a tag: "-" takes all white space, a statement or comment one newline.
  void end_tag(char sign, char tag) {
    const std::size_t begin = at_;
    if (sign == '-') {
      while (at_ < source_.size() && is_space(source_[at_])) ++at_;
    } else if (sign != '+' && tag != '{' && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  bool skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return false;
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    end_tag(sign, '#');
    return true;
  }

  bool read_tag(char tag, std::vector<JinjaNode>& nodes) {
    JinjaNode node{tag == '{' ? JinjaNode::Kind::kPrint : JinjaNode::Kind::kStatement, {}, {}};
    const std::string_view close = tag == '{' ? "}}" : "%}";
    while (at_ < source_.size()) {
      const char c = source_[at_];
      const bool sign = c == '-' || (c == '+' && tag == '%');
      if (source_.substr(at_ + (sign ? 1 : 0), 2) == close) {
        at_ += sign ? 3 : 2;
        end_tag(sign ? c : '\0', tag);
        nodes.push_back(std::move(node));
        return true;
      }
      if (is_space(c)) {
        ++at_;
      } else if (!read_token(node.tokens)) {
        return false;
      }
    }
    return false;
  }

  bool read_token(std::vector<JinjaToken>& tokens) {
    const char c = source_[at_];
    if (c == '\'' || c == '"') return read_string(tokens);
    const std::size_t begin = at_;
    if (is_name(c)) {
      while (at_ < source_.size() && is_name(source_[at_])) ++at_;
      tokens.push_back({is_digit(c) ? JinjaToken::Kind::kNumber : JinjaToken::Kind::kName,
                        std::string(source_.substr(begin, at_ - begin))});
      return true;
    }
    if (std::string_view("+-~.[]()|%=!<>,:*/{}").find(c) == std::string_view::npos) return false;
    const std::string_view two = source_.substr(at_, 2);
    at_ += two == "==" || two == "!=" || two == "<=" || two == ">=" ? 2 : 1;
    tokens.push_back(
        {JinjaToken::Kind::kOperator, std::string(source_.substr(begin, at_ - begin))});
    return true;
  }

  bool read_string(std::vector<JinjaToken>& tokens) {
    const char quote = source_[at_++];
    std::string value;
    for (; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] != '\\') {
        value += source_[at_];
        continue;
      }
      if (++at_ == source_.size()) return false;
      const std::size_t escape = std::string_view("ntr\\'\"").find(source_[at_]);
      if (escape == std::string_view::npos) return false;
      value += "\n\t\r\\'\""[escape];
    }
    if (at_ == source_.size()) return false;
    ++at_;
    tokens.push_back({JinjaToken::Kind::kString, std::move(value)});
    return true;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
};

}  // namespace

std::optional<std::vector<JinjaNode>> lex_jinja(std::string_view source) {
  if (source.size() > kMaxSource) return std::nullopt;
  const std::string text = normalised(source);
  std::vector<JinjaNode> nodes;
  if (!Lexer(text).run(nodes)) return std::nullopt;
  return nodes;
}

}  // namespace quern::text

#include "grammar/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/errors/grammar.h"
#include "text/utf8.h"

namespace quern::grammar {
namespace {

const CharSet kDigits = {{'0', '9'}};
const CharSet kWordChars = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpaces = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                         {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                         {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

std::int64_t times(std::int64_t length, std::int64_t count) {
  if (length == 0 || count == 0) return 0;
  if (length == kNoMaximum || count == kNoMaximum) return kNoMaximum;
  return length > kMaxRegexSize * kMaxRegexRepeat / count ? kMaxRegexSize * kMaxRegexRepeat
                                                          : length * count;
}

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }

int hex_digit(char32_t c) {
  if (is_digit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
  return -1;
}

}  // namespace

void refuse_grammar(std::string_view reason) {
  throw Error(errors::kGrammarInvalid, {{"kind", "this"}, {"detail", reason}});
}

// Recursive descent; groups alone recurse.
class RegexReader {
 public:
  RegexReader(std::string_view pattern, Regex* regex) : regex_(*regex) {
    if (pattern.size() > kMaxRegexBytes) {
      fail(fmt::format("it has {} bytes; the limit is {}", pattern.size(), kMaxRegexBytes));
    }
    for (size_t at = 0; at < pattern.size();) {
      const text::Utf8Step step = text::utf8_step(pattern.substr(at));
      if (step.kind != text::Utf8Kind::kValid) fail("it is not valid UTF-8");
      chars_.push_back(text::next_char(pattern, at));
      if (chars_.back() == 0) fail("it has a NUL character");
    }
    regex_.root_ = choice({true, true});
    if (!done()) refuse("unmatched ')'");
  }

 private:
  using Kind = Regex::Kind;
  using Node = Regex::Node;
  // Whether what is read stands at the very beginning, or the very end, of every match.
  struct Edges {
    bool begin = false, end = false;
  };

  [[noreturn]] static void fail(std::string reason) { refuse_grammar(reason); }
  [[noreturn]] void refuse(std::string_view reason) const {
    fail(fmt::format("at character {}: {}", at_ + 1, reason));
  }

  bool done() const { return at_ >= chars_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < chars_.size() ? chars_[at_ + ahead] : 0;
  }
  bool take(char32_t c) {
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }

  size_t add(Node node) {
    if (node.size > kMaxRegexSize) {
      refuse(fmt::format("with its repetitions it is longer than {} characters", kMaxRegexSize));
    }
    regex_.nodes_.push_back(std::move(node));
    return regex_.nodes_.size() - 1;
  }
  const Node& node(size_t index) const { return regex_.nodes_[index]; }

  size_t add_set(CharSet set) {
    if (set.empty()) refuse("a class that no character is in");
    return add({.kind = Kind::kSet, .set = std::move(set), .shortest = 1, .longest = 1, .size = 1});
  }

  size_t choice(Edges edges) {
    Node whole{.kind = Kind::kChoice, .shortest = kMaxRegexSize};
    do {
      const size_t part = sequence(edges);
      whole.parts.push_back(part);
      whole.shortest = std::min(whole.shortest, node(part).shortest);
      whole.longest = whole.longest == kNoMaximum || node(part).longest == kNoMaximum
                          ? kNoMaximum
                          : std::max(whole.longest, node(part).longest);
      whole.size += 1 + node(part).size;
      whole.repeats |= node(part).repeats;
    } while (take('|'));
    return whole.parts.size() == 1 ? whole.parts[0] : add(std::move(whole));
  }

  // `$` may only be followed by what ends its sequence.
  bool at_sequence_end() const { return done() || peek() == '|' || peek() == ')'; }

  size_t sequence(Edges edges) {
    Node whole{.kind = Kind::kSequence};
    bool begun = false;
    while (!at_sequence_end()) {
      if (take('^')) {
        if (begun || !edges.begin) refuse("'^' can only stand at the beginning");
        continue;
      }
      if (take('$')) {
        if (!at_sequence_end() || !edges.end) refuse("'$' can only stand at the end");
        continue;
      }
      const size_t part = repeated({edges.begin && !begun, edges.end});
      begun = true;
      whole.parts.push_back(part);
      whole.shortest += node(part).shortest;
      whole.longest = whole.longest == kNoMaximum || node(part).longest == kNoMaximum
                          ? kNoMaximum
                          : whole.longest + node(part).longest;
      whole.size += node(part).size;
      whole.repeats |= node(part).repeats;
    }
    return whole.parts.size() == 1 ? whole.parts[0] : add(std::move(whole));
  }

  size_t repeated(Edges edges) {
    const bool group = peek() == '(';
    if (group) edges = within(edges);
    const size_t part = group ? this->group(edges) : atom();
    if (done()) return part;
    std::int64_t min = 1, max = 1;
    if (take('*')) {
      min = 0, max = kNoMaximum;
    } else if (take('+')) {
      max = kNoMaximum;
    } else if (take('?')) {
      min = 0;
    } else if (peek() != '{' || !counts(&min, &max)) {
      return part;
    }
    take('?');  // what matches is the same
    if (peek() == '*' || peek() == '+' || peek() == '?') refuse("two repetitions in a row");
    const Node& once = node(part);
    const std::int64_t copies = std::max<std::int64_t>({min, max, 1});
    if (once.repeats && copies > 1 && times(once.size, copies) > kMaxNestedSize) {
      refuse(
          fmt::format("a repetition of repetitions, of more than {} characters", kMaxNestedSize));
    }
    return add({.kind = Kind::kRepeat,
                .parts = {part},
                .min = min,
                .max = max,
                .shortest = times(once.shortest, min),
                .longest = times(once.longest, max),
                .size = times(std::max<std::int64_t>(once.size, 1), copies),
                .repeats = once.repeats || max > 1 || max == kNoMaximum});
  }

  // The edges that hold within the group that begins here: none within a repetition.
  Edges within(Edges edges) const {
    int depth = 0;
    bool within_class = false;
    for (size_t i = at_; i < chars_.size(); ++i) {
      const char32_t c = chars_[i];
      if (c == '\\') {
        ++i;
      } else if (within_class) {
        within_class = c != ']';
      } else if (c == '[') {
        within_class = true;
      } else if (c == '(') {
        ++depth;
      } else if (c == ')' && --depth == 0) {
        const char32_t next = i + 1 < chars_.size() ? chars_[i + 1] : 0;
        const bool repeats = next == '*' || next == '+' || next == '?' || next == '{';
        const bool last = next == 0 || next == ')' || next == '|' || next == '$';
        return {edges.begin && !repeats, edges.end && last};
      }
    }
    return {};
  }

  // {m}, {m,} or {m,n}; other braces are characters.
  bool counts(std::int64_t* min, std::int64_t* max) {
    size_t i = at_ + 1;
    const auto number = [&]() -> std::optional<std::int64_t> {
      if (i >= chars_.size() || !is_digit(chars_[i])) return std::nullopt;
      std::int64_t value = 0;
      for (; i < chars_.size() && is_digit(chars_[i]); ++i) {
        value = std::min<std::int64_t>(value * 10 + (chars_[i] - '0'), kMaxRegexRepeat + 1);
      }
      return value;
    };
    const auto least = number();
    if (!least) return false;
    std::optional<std::int64_t> most = least;
    if (i < chars_.size() && chars_[i] == ',') {
      ++i;
      most = number();
    }
    if (i >= chars_.size() || chars_[i] != '}') return false;
    at_ = i + 1;
    *min = *least;
    *max = most.value_or(kNoMaximum);
    if (std::max(*min, *max) > kMaxRegexRepeat) {
      refuse(fmt::format("a repetition of more than {}", kMaxRegexRepeat));
    }
    if (*max != kNoMaximum && *max < *min) refuse("a repetition's most is below its least");
    return true;
  }

  size_t group(Edges edges) {
    take('(');
    if (take('?')) {
      if (take('<') || (peek() == 'P' && peek(1) == '<' && (at_ += 2, true))) {
        if (peek() == '=' || peek() == '!') refuse("lookbehind cannot become a grammar");
        while (!done() && peek() != '>') ++at_;
        if (!take('>')) refuse("a group's name does not end");
      } else if (peek() == '=' || peek() == '!') {
        refuse("lookahead cannot become a grammar");
      } else if (!take(':')) {
        refuse("flags and modifiers of groups cannot become a grammar");
      }
    }
    if (++depth_ > kMaxRegexDepth) {
      refuse(fmt::format("groups are nested more than {} deep", kMaxRegexDepth));
    }
    const size_t inside = choice(edges);
    if (!take(')')) refuse("a group does not end");
    --depth_;
    return inside;
  }

  size_t atom() {
    const char32_t c = peek();
    if (c == '*' || c == '+' || c == '?') refuse("nothing to repeat");
    if (c == '[') return add_set(char_class());
    ++at_;
    if (c == '.') return add_set(complement(kLineEnds));
    if (c == '\\') {
      --at_;
      return add_set(escape(false));
    }
    return add_set({{c, c}});
  }

  CharSet char_class() {
    ++at_;
    const bool negated = take('^');
    CharSet set;
    bool closed = false;
    while (!done()) {
      if (take(']')) {
        closed = true;
        break;
      }
      const CharSet first = member();
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < chars_.size()) {
        ++at_;
        const CharSet last = member();
        const bool single = first.size() == 1 && first[0].first == first[0].second &&
                            last.size() == 1 && last[0].first == last[0].second;
        if (!single) refuse("a range between classes");
        if (last[0].first < first[0].first) refuse("a range that ends before it begins");
        set.emplace_back(first[0].first, last[0].first);
        continue;
      }
      set.insert(set.end(), first.begin(), first.end());
    }
    if (!closed) refuse("a character class does not end");
    set = normalized(std::move(set));
    return negated ? complement(set) : set;
  }

  CharSet member() {
    if (peek() == '\\') return escape(true);
    const char32_t c = peek();
    ++at_;
    return {{c, c}};
  }

  std::optional<char32_t> hex(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = hex_digit(peek(i));
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    at_ += digits;
    return value;
  }

  char32_t unicode_escape() {
    if (take('{')) {
      size_t digits = 0;
      while (digits < 7 && hex_digit(peek(digits)) >= 0) ++digits;
      const auto value = digits > 0 && digits < 7 ? hex(digits) : std::nullopt;
      if (!value || !take('}') || *value > kLastChar) refuse("\\u{…} is not a character");
      return *value;
    }
    const auto unit = hex(4);
    if (!unit) refuse("\\u needs four hex digits");
    if (*unit < 0xD800 || *unit > 0xDFFF) return *unit;
    if (*unit <= 0xDBFF && peek() == '\\' && peek(1) == 'u') {
      at_ += 2;
      const auto low = hex(4);
      if (low && *low >= 0xDC00 && *low <= 0xDFFF) {
        return 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00);
      }
    }
    refuse("half of a surrogate pair");
  }

  CharSet escape(bool in_class) {
    ++at_;
    if (done()) refuse("it ends with a backslash");
    const char32_t c = peek();
    ++at_;
    switch (c) {
      case 'd': return kDigits;
      case 'D': return complement(kDigits);
      case 'w': return kWordChars;
      case 'W': return complement(kWordChars);
      case 's': return kSpaces;
      case 'S': return complement(kSpaces);
      case 'n': return {{'\n', '\n'}};
      case 'r': return {{'\r', '\r'}};
      case 't': return {{'\t', '\t'}};
      case 'f': return {{'\f', '\f'}};
      case 'v': return {{'\v', '\v'}};
      case 'b':
        if (in_class) return {{'\b', '\b'}};
        refuse("\\b cannot become a grammar");
      case 'x': {
        const auto value = hex(2);
        if (!value || *value == 0) refuse("\\x needs two hex digits, not both 0");
        return {{*value, *value}};
      }
      case 'u': {
        const char32_t value = unicode_escape();
        if (value == 0) refuse("the character NUL");
        return {{value, value}};
      }
      default: break;
    }
    if (c >= '1' && c <= '9') refuse("backreferences cannot become a grammar");
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '0';
    if (letter) refuse(fmt::format("\\{} is not known", static_cast<char>(c)));
    return {{c, c}};
  }

  Regex& regex_;
  std::vector<char32_t> chars_;
  size_t at_ = 0;
  int depth_ = 0;
};

Regex::Regex(std::string_view pattern) { RegexReader(pattern, this); }

}  // namespace quern::grammar

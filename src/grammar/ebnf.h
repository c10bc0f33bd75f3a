// A grammar in the making, in the notation that the compiler reads: rules of alternatives. Rules
// that can never be completed are left out with all that needs them, so that no answer walks into a
// dead end. Used by the readers of JSON schemas and regular expressions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace quern::grammar {

// Unicode characters [first, last], surrogates excepted.
using CharRange = std::pair<char32_t, char32_t>;
using CharSet = std::vector<CharRange>;  // ordered, apart

inline constexpr char32_t kLastChar = 0x10FFFF;

CharSet normalized(CharSet set);
CharSet complement(const CharSet& set);
CharSet intersection(const CharSet& left, const CharSet& right);
bool contains(const CharSet& set, char32_t c);

// The notation of one of these characters; requires: the set is not empty.
std::string class_text(const CharSet& set);
// The notation of a text, quoted. Requires: valid UTF-8.
std::string literal_text(std::string_view text);

inline constexpr std::int64_t kNoMaximum = -1;

// One link of an alternative, so many times: a rule, or notation, which must be one class or
// literal where it is repeated.
struct Part {
  std::string text{};
  int rule = -1;
  std::int64_t min = 1, max = 1;  // kNoMaximum: any number

  static Part of(std::string text) { return {.text = std::move(text)}; }
  static Part ref(int rule, std::int64_t min = 1, std::int64_t max = 1) {
    return {.rule = rule, .min = min, .max = max};
  }
};
using Alternative = std::vector<Part>;

// What may stand behind the text of a grammar.
enum class Behind { kNothing, kMore };

class Ebnf {
 public:
  int add_rule();  // without alternatives, which nothing satisfies
  void add(int rule, Alternative alternative);
  int add_rule(Alternative alternative);
  // The unit so many times. Large numbers become units of units, for the compiler counts exactly to
  // 128 only, and each of its states costs time.
  Part times(const Part& unit, std::int64_t min, std::int64_t max);
  // The rule of the unit so many times and then of what `next` writes. Unlike times() it needs no
  // second look at tokens that reach over the end of the unit or of the whole.
  int chain(const Part& unit, std::int64_t min, std::int64_t max, int next);
  std::vector<Alternative> alternatives(int rule) const {
    return rules_[static_cast<size_t>(rule)];
  }
  std::int64_t rules() const { return static_cast<std::int64_t>(rules_.size()); }

  bool is_possible(int rule) const { return productive()[static_cast<size_t>(rule)]; }
  // The grammar from `root` on, whose rule is called "root". Nullopt where nothing satisfies it.
  std::optional<std::string> text(int root, Behind behind) const;

 private:
  std::vector<bool> productive() const;
  // Of those that are possible: which end the whole text wherever they stand.
  std::vector<bool> last(int root, const std::vector<bool>& is_possible) const;
  Part exactly(const Part& unit, std::int64_t count);
  Part up_to(const Part& unit, std::int64_t count);
  Part shared(const Part& unit, std::int64_t min, std::int64_t max);
  // What is compiled once need not be again: rules of units that were counted.
  std::map<std::tuple<std::string, int, std::int64_t, std::int64_t>, int> counted_;
  std::vector<std::vector<Alternative>> rules_;
};

}  // namespace quern::grammar

#include "grammar/number_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace quern::grammar {
namespace {

// Digits, then a point and digits; no zeros but those that a number must have.
struct Decimal {
  std::string whole = "0";
  std::string fraction{};
  bool exclusive = false;
};

// Requires: value ≥ 0, finite.
Decimal decimal(double value, bool exclusive) {
  char buffer[512];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t point = text.find('.');
  Decimal parts{.whole = std::string(text.substr(0, point)), .exclusive = exclusive};
  if (point != text.npos) parts.fraction = text.substr(point + 1);
  return parts;
}

std::string digits(int count) {
  return count == 0 ? "" : count == 1 ? " [0-9]" : fmt::format(" [0-9]{{{}}}", count);
}

std::string digit_class(char first, char last) {
  return first == last ? fmt::format(" \"{}\"", first) : fmt::format(" [{}-{}]", first, last);
}

// Numbers of equally many digits from `low` to `high`.
void same_length(const std::string& prefix, std::string_view low, std::string_view high,
                 std::vector<std::string>* out) {
  const auto rest = static_cast<int>(low.size()) - 1;
  if (low.empty()) {
    out->push_back(prefix);
  } else if (low[0] == high[0]) {
    same_length(prefix + digit_class(low[0], low[0]), low.substr(1), high.substr(1), out);
  } else {
    char first = low[0], last = high[0];
    const bool from_zeros = low.find_first_not_of('0', 1) == low.npos;
    const bool to_nines = high.find_first_not_of('9', 1) == high.npos;
    if (!from_zeros) {
      const std::string nines(static_cast<size_t>(rest), '9');
      same_length(prefix + digit_class(first, first), low.substr(1), nines, out);
      ++first;
    }
    if (!to_nines) --last;
    if (first <= last) out->push_back(prefix + digit_class(first, last) + digits(rest));
    if (!to_nines) {
      const std::string zeros(static_cast<size_t>(rest), '0');
      same_length(prefix + digit_class(high[0], high[0]), zeros, high.substr(1), out);
    }
  }
}

bool less(std::string_view left, std::string_view right) {
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

// From `low` to `high`, each without leading zeros.
std::vector<std::string> whole_range(std::string_view low, std::string_view high) {
  std::vector<std::string> out;
  if (less(high, low)) return out;
  for (size_t length = low.size(); length <= high.size(); ++length) {
    std::string first = length == 1 ? "0" : "1" + std::string(length - 1, '0');
    std::string last(length, '9');
    if (length == low.size()) first = low;
    if (length == high.size()) last = high;
    same_length("", first, last, &out);
  }
  return out;
}

std::string plus_one(std::string number) {
  for (size_t i = number.size(); i-- > 0;) {
    if (number[i] != '9') {
      ++number[i];
      return number;
    }
    number[i] = '0';
  }
  return "1" + number;
}

// Requires: number is not 0.
std::string minus_one(std::string number) {
  size_t i = number.size() - 1;
  for (; number[i] == '0'; --i) number[i] = '9';
  --number[i];
  if (number[0] == '0' && number.size() > 1) number.erase(0, 1);
  return number;
}

// The fractions behind a whole part that is that of `low`, of `high`, or of both.
class Fractions {
 public:
  Fractions(const Decimal* low, const Decimal* high, std::vector<std::string>* out)
      : low_(low), high_(high), out_(*out) {
    for (const Decimal* bound : {low, high}) {
      if (bound) deepest_ = std::max(deepest_, bound->fraction.size());
    }
    deepest_ += 8;
  }

  void add(const std::string& prefix) { add(prefix, 0, low_ != nullptr, high_ != nullptr); }

 private:
  // `prefix` is written; it equals the bounds that are still tight.
  void add(const std::string& prefix, size_t at, bool tight_low, bool tight_high) {
    const auto left =
        static_cast<std::int64_t>(kFractionDigits) + 1 - static_cast<std::int64_t>(at);
    if (!tight_low && !tight_high) {
      out_.push_back(at == 0
                         ? prefix + fmt::format(" (\".\" [0-9]{{1,{}}})?", kFractionDigits)
                         : prefix + fmt::format(" [0-9]{{0,{}}}", std::max<std::int64_t>(left, 1)));
      return;
    }
    const bool above = !tight_low || (at >= low_->fraction.size() && !low_->exclusive);
    const bool below = !tight_high || at < high_->fraction.size() || !high_->exclusive;
    // A zero at the end adds nothing to a number that was written before.
    const bool repeats = at > 0 && tight_low && at > low_->fraction.size();
    if (above && below && !repeats) out_.push_back(prefix);
    if (at >= deepest_) return;
    const char first = tight_low && at < low_->fraction.size() ? low_->fraction[at] : '0';
    const char last = !tight_high ? '9' : at < high_->fraction.size() ? high_->fraction[at] : '0';
    const std::string before = at == 0 ? prefix + " \".\"" : prefix;
    for (char digit = first; digit <= last; ++digit) {
      const bool low = tight_low && digit == first, high = tight_high && digit == last;
      if (low || high) {
        add(before + digit_class(digit, digit), at + 1, low, high);
        continue;
      }
      const char until = static_cast<char>(tight_high ? last - 1 : last);
      add(before + digit_class(digit, until), at + 1, false, false);
      digit = until;
    }
  }

  const Decimal* low_;
  const Decimal* high_;
  std::vector<std::string>& out_;
  size_t deepest_ = 0;  // digits after which nothing more is told apart
};

// Numbers ≥ 0 from `low` to `high`.
std::vector<std::string> decimal_range(const Decimal& low, const Decimal& high) {
  std::vector<std::string> out;
  if (less(high.whole, low.whole)) return out;
  const auto literal = [](const std::string& whole) { return " \"" + whole + "\""; };
  if (low.whole == high.whole) {
    Fractions(&low, &high, &out).add(literal(low.whole));
    return out;
  }
  Fractions(&low, nullptr, &out).add(literal(low.whole));
  const std::string first = plus_one(low.whole), last = minus_one(high.whole);
  for (const std::string& whole : whole_range(first, last)) {
    out.push_back(whole + fmt::format(" (\".\" [0-9]{{1,{}}})?", kFractionDigits));
  }
  Fractions(nullptr, &high, &out).add(literal(high.whole));
  return out;
}

int rule_of(const std::vector<std::string>& negative, const std::vector<std::string>& others,
            Ebnf* ebnf) {
  const int rule = ebnf->add_rule();
  for (const std::string& text : negative) ebnf->add(rule, {Part::of("\"-\"" + text)});
  for (const std::string& text : others) ebnf->add(rule, {Part::of(text.substr(1))});
  return rule;
}

}  // namespace

int integer_range(std::optional<std::int64_t> low, std::optional<std::int64_t> high, Ebnf* ebnf) {
  const std::string most(kIntegerDigits, '9');
  const auto size_of = [](std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return std::to_string(value < 0 ? ~bits + 1 : bits);
  };
  // Where the bound that there is lies beyond the digits, the other side goes one digit further.
  const auto open_end = [&](std::string_view bound) {
    return less(bound, most) ? most : std::string(bound.size() + 1, '9');
  };
  std::vector<std::string> negative, others;
  if (!low || *low < 0) {
    const std::string first = high && *high < 0 ? size_of(*high) : "1";
    negative = whole_range(first, low ? size_of(*low) : open_end(first));
  }
  if (!high || *high >= 0) {
    const std::string first = low && *low > 0 ? size_of(*low) : "0";
    others = whole_range(first, high ? size_of(*high) : open_end(first));
  }
  return rule_of(negative, others, ebnf);
}

int number_range(std::optional<NumberBound> low, std::optional<NumberBound> high, Ebnf* ebnf) {
  const Decimal most{.whole = std::string(kIntegerDigits + 1, '9')};
  std::vector<std::string> negative, others;
  if (!low || low->value < 0) {
    const Decimal first = high && high->value < 0 ? decimal(-high->value, high->exclusive)
                                                  : Decimal{.exclusive = true};
    negative = decimal_range(first, low ? decimal(-low->value, low->exclusive) : most);
  }
  if (!high || high->value >= 0) {
    const Decimal first = low && low->value >= 0 ? decimal(low->value, low->exclusive) : Decimal{};
    others = decimal_range(first, high ? decimal(high->value, high->exclusive) : most);
  }
  return rule_of(negative, others, ebnf);
}

}  // namespace quern::grammar

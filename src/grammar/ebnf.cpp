#include "grammar/ebnf.h"

#include <fmt/format.h>

#include <algorithm>

namespace quern::grammar {
namespace {

constexpr char32_t kSurrogatesBegin = 0xD800, kSurrogatesEnd = 0xDFFF;

void append_char(std::string* out, char32_t c) {
  *out += c > 0xFFFF ? fmt::format("\\U{:08x}", static_cast<std::uint32_t>(c))
                     : fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
}

std::string counted(const std::string& what, std::int64_t min, std::int64_t max) {
  if (min == 1 && max == 1) return what;
  if (min == 0 && max == 1) return what + "?";
  if (max == kNoMaximum && min <= 1) return what + (min == 0 ? "*" : "+");
  if (max == kNoMaximum) return fmt::format("{}{{{},}}", what, min);
  return fmt::format("{}{{{},{}}}", what, min, max);
}

}  // namespace

CharSet normalized(CharSet set) {
  std::sort(set.begin(), set.end());
  CharSet joined;
  for (const CharRange& range : set) {
    if (range.first > range.second) continue;
    if (!joined.empty() && range.first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, range.second);
    } else {
      joined.push_back(range);
    }
  }
  CharSet apart;  // from surrogates
  for (const auto& [first, last] : joined) {
    if (first < kSurrogatesBegin)
      apart.emplace_back(first, std::min<char32_t>(last, kSurrogatesBegin - 1));
    if (last > kSurrogatesEnd)
      apart.emplace_back(std::max<char32_t>(first, kSurrogatesEnd + 1), last);
  }
  return apart;
}

CharSet complement(const CharSet& set) {
  CharSet rest;
  char32_t next = 0;
  for (const auto& [first, last] : set) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLastChar) rest.emplace_back(next, kLastChar);
  return normalized(std::move(rest));
}

CharSet intersection(const CharSet& left, const CharSet& right) {
  CharSet both;
  for (size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const char32_t first = std::max(left[i].first, right[j].first);
    const char32_t last = std::min(left[i].second, right[j].second);
    if (first <= last) both.emplace_back(first, last);
    if (left[i].second < right[j].second) {
      ++i;
    } else {
      ++j;
    }
  }
  return both;
}

bool contains(const CharSet& set, char32_t c) {
  return std::any_of(set.begin(), set.end(),
                     [c](const CharRange& range) { return range.first <= c && c <= range.second; });
}

std::string class_text(const CharSet& set) {
  std::string text = "[";
  for (const auto& [first, last] : set) {
    append_char(&text, first);
    if (first == last) continue;
    text += '-';
    append_char(&text, last);
  }
  return text + "]";
}

std::string literal_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\u{:04x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

int Ebnf::add_rule() {
  rules_.emplace_back();
  return static_cast<int>(rules_.size()) - 1;
}

void Ebnf::add(int rule, Alternative alternative) {
  rules_[static_cast<size_t>(rule)].push_back(std::move(alternative));
}

int Ebnf::add_rule(Alternative alternative) {
  const int rule = add_rule();
  add(rule, std::move(alternative));
  return rule;
}

namespace {

// Where a token may reach over the end of a unit, every one is tried when a mask is made, so that
// one unit is best while the compiler counts exactly; more of them share their states, whose
// compilation takes milliseconds each.
constexpr std::int64_t kLargestCount = 128, kUnit = 64;

Part counted_part(Part unit, std::int64_t min, std::int64_t max) {
  unit.min = min;
  unit.max = max;
  return unit;
}

}  // namespace

Part Ebnf::shared(const Part& unit, std::int64_t min, std::int64_t max) {
  const std::tuple key(unit.text, unit.rule, min, max);
  auto found = counted_.find(key);
  if (found == counted_.end()) {
    found = counted_.emplace(key, add_rule({counted_part(unit, min, max)})).first;
  }
  return Part::ref(found->second);
}

Part Ebnf::exactly(const Part& unit, std::int64_t count) {
  if (count <= kLargestCount) return counted_part(unit, count, count);
  const Part larger = shared(unit, kUnit, kUnit);
  const std::int64_t rest = count % kUnit;
  return Part::ref(add_rule({exactly(larger, count / kUnit), counted_part(unit, rest, rest)}));
}

// Each number in one way: larger units first, then fewer units than make a larger one.
Part Ebnf::up_to(const Part& unit, std::int64_t count) {
  if (count <= kLargestCount) return counted_part(unit, 0, count);
  const Part larger = shared(unit, kUnit, kUnit);
  const std::int64_t most = count / kUnit;
  const int rule = add_rule();
  add(rule, {up_to(larger, most - 1), shared(unit, 0, kUnit - 1)});
  add(rule, {exactly(larger, most), counted_part(unit, 0, count % kUnit)});
  return Part::ref(rule);
}

Part Ebnf::times(const Part& unit, std::int64_t min, std::int64_t max) {
  if (unit.min != 1 || unit.max != 1) return times(Part::ref(add_rule({unit})), min, max);
  if (max == kNoMaximum) {
    if (min <= kLargestCount) return counted_part(unit, min, max);
    return Part::ref(add_rule({exactly(unit, min), counted_part(unit, 0, kNoMaximum)}));
  }
  if (max <= kLargestCount) return counted_part(unit, min, max);
  if (min == 0) return up_to(unit, max);
  return Part::ref(add_rule({exactly(unit, min), up_to(unit, max - min)}));
}

int Ebnf::chain(const Part& unit, std::int64_t min, std::int64_t max, int next) {
  if (std::max(min, max) > kLargestCount) {
    return add_rule({times(unit, min, max), Part::ref(next)});
  }
  int rule = next;
  if (max == kNoMaximum) {
    rule = add_rule({counted_part(unit, 0, kNoMaximum), Part::ref(next)});
    max = min;
  }
  for (std::int64_t i = max; i-- > 0;) {
    rule = add_rule({unit, Part::ref(rule)});
    if (i >= min) add(rule, {Part::ref(next)});
  }
  return rule;
}

// A rule is when one of its alternatives needs only rules that are.
std::vector<bool> Ebnf::productive() const {
  std::vector<bool> is(rules_.size());
  std::vector<std::vector<size_t>> needed_by(rules_.size());
  struct Waiting {
    size_t rule = 0, needs = 0;
  };
  std::vector<Waiting> waiting;
  std::vector<size_t> found;
  const auto settle = [&](size_t rule) {
    if (is[rule]) return;
    is[rule] = true;
    found.push_back(rule);
  };
  for (size_t rule = 0; rule < rules_.size(); ++rule) {
    for (const Alternative& alternative : rules_[rule]) {
      const size_t index = waiting.size();
      waiting.push_back({rule, 0});
      for (const Part& part : alternative) {
        if (part.rule < 0 || part.min == 0) continue;
        ++waiting.back().needs;
        needed_by[static_cast<size_t>(part.rule)].push_back(index);
      }
      if (waiting.back().needs == 0) settle(rule);
    }
  }
  while (!found.empty()) {
    const size_t rule = found.back();
    found.pop_back();
    for (const size_t index : needed_by[rule]) {
      if (--waiting[index].needs == 0) settle(waiting[index].rule);
    }
  }
  return is;
}

std::vector<bool> Ebnf::last(int root, const std::vector<bool>& is_possible) const {
  std::vector<bool> is(rules_.size(), true), seen(rules_.size());
  std::vector<size_t> todo = {static_cast<size_t>(root)};
  seen[todo[0]] = true;
  // A rule comes up again where it turns out to be none.
  while (!todo.empty()) {
    const size_t rule = todo.back();
    todo.pop_back();
    for (const Alternative& alternative : rules_[rule]) {
      for (size_t i = 0; i < alternative.size(); ++i) {
        const Part& part = alternative[i];
        if (part.rule < 0) continue;
        const auto inner = static_cast<size_t>(part.rule);
        if (!is_possible[inner]) continue;
        const bool ends = is[rule] && i + 1 == alternative.size() && part.max == 1;
        if (seen[inner] && (ends || !is[inner])) continue;
        if (!ends) is[inner] = false;
        seen[inner] = true;
        todo.push_back(inner);
      }
    }
  }
  return is;
}

std::optional<std::string> Ebnf::text(int root, Behind behind) const {
  const std::vector<bool> is = productive();
  if (!is[static_cast<size_t>(root)]) return std::nullopt;
  const std::vector<bool> ends = last(root, is);
  std::string text;
  std::vector<bool> seen(rules_.size());
  std::vector<int> todo = {root};
  seen[static_cast<size_t>(root)] = true;
  const auto name = [root](int rule) {
    return rule == root ? std::string("root") : fmt::format("r{}", rule);
  };
  while (!todo.empty()) {
    const int rule = todo.back();
    todo.pop_back();
    text += name(rule) + " ::=";
    bool first = true;
    for (const Alternative& alternative : rules_[static_cast<size_t>(rule)]) {
      const bool possible =
          std::all_of(alternative.begin(), alternative.end(), [&](const Part& part) {
            return part.rule < 0 || part.min == 0 || is[static_cast<size_t>(part.rule)];
          });
      if (!possible) continue;
      text += first ? " " : " | ";
      first = false;
      bool empty = true;
      for (const Part& part : alternative) {
        if (part.max == 0 || (part.rule >= 0 && !is[static_cast<size_t>(part.rule)])) continue;
        if (!empty) text += ' ';
        empty = false;
        if (part.rule < 0) {
          text += counted(part.text, part.min, part.max);
          continue;
        }
        text += counted(name(part.rule), part.min, part.max);
        if (!seen[static_cast<size_t>(part.rule)]) {
          seen[static_cast<size_t>(part.rule)] = true;
          todo.push_back(part.rule);
        }
      }
      if (empty) text += "\"\"";
    }
    // Tells the compiler that no token reaches over the rule's end: what would follow never does.
    const bool final = behind == Behind::kNothing && rule != root;
    if (final && ends[static_cast<size_t>(rule)]) text += " (=[\\u0000])";
    text += '\n';
  }
  return text;
}

}  // namespace quern::grammar

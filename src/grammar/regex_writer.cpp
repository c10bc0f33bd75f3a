// The rules of a regular expression. Each part's rule ends with what follows the part, so that a
// token reaches over no rule's end: where it does, it is tried again for every mask.

#include <fmt/format.h>

#include <algorithm>

#include "grammar/regex.h"

namespace quern::grammar {
namespace {

constexpr std::int64_t kMaxStates = 2000;  // that repetitions are written out to
constexpr std::int64_t kEscapeStates = 8;  // of a character that may be escaped

CharSet escaped_chars(RegexText text) {
  if (text == RegexText::kPlain || text == RegexText::kTagged) return {};
  CharSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  if (text == RegexText::kTaggedString) escaped.emplace_back('<', '<');
  return normalized(std::move(escaped));
}

// A character of the set as the inside of a JSON string writes it, in all ways that are needed.
std::vector<Part> json_chars(const CharSet& set, const CharSet& escaped) {
  static constexpr std::pair<char32_t, char> kShort[] = {
      {'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
  std::vector<Part> ways;
  const CharSet plain = intersection(set, complement(escaped));
  if (!plain.empty()) ways.push_back(Part::of(class_text(plain)));
  for (const auto& [c, letter] : kShort) {
    if (contains(set, c)) ways.push_back(Part::of(literal_text(std::string{'\\', letter})));
  }
  for (char32_t c = 1; c <= '<'; ++c) {
    const bool is_short = std::any_of(std::begin(kShort), std::end(kShort),
                                      [&](const auto& known) { return known.first == c; });
    if (is_short || !contains(escaped, c) || !contains(set, c)) continue;
    ways.push_back(Part::of(literal_text(fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c)))));
  }
  return ways;
}

}  // namespace

class RegexWriter {
 public:
  RegexWriter(const std::vector<Regex::Node>& nodes, RegexText text, Ebnf* ebnf)
      : nodes_(nodes), text_(text), escaped_(escaped_chars(text)), ebnf_(*ebnf) {}

  // The rule of what the node matches and, behind it, of what `next` writes.
  int before(size_t index, int next) {
    const Node& node = nodes_[index];
    if (is_plain_set(index)) {
      return ebnf_.add_rule({part(index), Part::ref(next)});
    }
    switch (node.kind) {
      case Kind::kSet: {
        const int rule = ebnf_.add_rule();
        for (const Part& way : json_chars(node.set, escaped_)) {
          ebnf_.add(rule, {way, Part::ref(next)});
        }
        return rule;
      }
      case Kind::kSequence: return sequence(node, next);
      case Kind::kChoice: {
        const int rule = ebnf_.add_rule();
        for (const size_t each : node.parts) ebnf_.add(rule, {Part::ref(before(each, next))});
        return rule;
      }
      case Kind::kRepeat: return repeated(index, next);
    }
    return next;
  }

 private:
  using Node = Regex::Node;
  using Kind = Regex::Kind;

  bool is_plain(const CharSet& set) const { return intersection(set, escaped_).empty(); }

  bool is_plain_set(size_t index) const {
    return nodes_[index].kind == Kind::kSet && is_plain(nodes_[index].set);
  }

  int sequence(const Node& node, int next) {
    Alternative tail = {Part::ref(next)};
    for (size_t i = node.parts.size(); i-- > 0;) {
      if (is_plain_set(node.parts[i])) {
        tail.insert(tail.begin(), part(node.parts[i]));
        continue;
      }
      const int behind = tail.size() == 1 ? tail[0].rule : ebnf_.add_rule(std::move(tail));
      tail = {Part::ref(before(node.parts[i], behind))};
    }
    return tail.size() == 1 ? tail[0].rule : ebnf_.add_rule(std::move(tail));
  }

  int repeated(size_t index, int next) {
    const Node& node = nodes_[index];
    const size_t unit = node.parts[0];
    const std::int64_t states = states_of(index);
    if (states > states_left_ || nodes_[unit].shortest == 0) {
      return ebnf_.add_rule({part(index), Part::ref(next)});
    }
    states_left_ -= states;
    if (is_plain_set(unit)) return ebnf_.chain(part(unit), node.min, node.max, next);
    // From the last one on.
    int rule = next;
    if (node.max == kNoMaximum) {
      rule = ebnf_.add_rule({Part::ref(next)});
      ebnf_.add(rule, {Part::ref(before(unit, rule))});
    }
    for (std::int64_t i = node.min; i < node.max; ++i) {
      const int more = before(unit, rule);
      rule = ebnf_.add_rule({Part::ref(next)});
      ebnf_.add(rule, {Part::ref(more)});
    }
    for (std::int64_t i = 0; i < node.min; ++i) rule = before(unit, rule);
    return rule;
  }

  // Of the node written out.
  std::int64_t states_of(size_t index) const {
    const Node& node = nodes_[index];
    if (node.kind == Kind::kSet) return is_plain(node.set) ? 1 : kEscapeStates;
    std::int64_t states = 0;
    for (const size_t each : node.parts) states += states_of(each);
    if (node.kind != Kind::kRepeat) return states;
    const std::int64_t copies = node.max == kNoMaximum ? node.min + 1 : node.max;
    return std::min(states, kMaxStates + 1) * std::min(copies, kMaxStates + 1);
  }

  // The node by itself.
  Part part(size_t index) {
    const Node& node = nodes_[index];
    switch (node.kind) {
      case Kind::kSet: {
        if (text_ == RegexText::kTagged) {
          static const CharSet kTagless = complement({{'\n', '\n'}, {'<', '<'}});
          const CharSet set = intersection(node.set, kTagless);
          return set.empty() ? Part::ref(ebnf_.add_rule()) : Part::of(class_text(set));
        }
        if (is_plain(node.set)) return Part::of(class_text(node.set));
        const int rule = ebnf_.add_rule();
        for (const Part& way : json_chars(node.set, escaped_)) ebnf_.add(rule, {way});
        return Part::ref(rule);
      }
      case Kind::kRepeat: return ebnf_.times(part(node.parts[0]), node.min, node.max);
      case Kind::kSequence: {
        Alternative all;
        for (const size_t each : node.parts) all.push_back(part(each));
        return Part::ref(ebnf_.add_rule(std::move(all)));
      }
      case Kind::kChoice: {
        const int rule = ebnf_.add_rule();
        for (const size_t each : node.parts) ebnf_.add(rule, {part(each)});
        return Part::ref(rule);
      }
    }
    return {};
  }

  const std::vector<Node>& nodes_;
  const RegexText text_;
  const CharSet escaped_;
  Ebnf& ebnf_;
  std::int64_t states_left_ = kMaxStates;
};

int Regex::add_to(Ebnf* ebnf, RegexText text, const Alternative& behind) const {
  return RegexWriter(nodes_, text, ebnf).before(root_, ebnf->add_rule(behind));
}

}  // namespace quern::grammar

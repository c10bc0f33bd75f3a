#include "grammar/marked_text.h"

#include <map>
#include <set>

#include "text/utf8.h"

namespace quern::grammar {
namespace {

std::u32string characters(std::string_view text) {
  std::u32string all;
  for (size_t at = 0; at < text.size();) all += text::next_char(text, at);
  return all;
}

// A rule for each beginning of a mark: the text so far ends with it, and with no longer one.
class MarkedText {
 public:
  MarkedText(Ebnf* ebnf, const std::vector<Mark>& marks) : ebnf_(*ebnf) {
    states_.emplace(U"", ebnf_.add_rule());
    for (const Mark& mark : marks) {
      const std::u32string word = characters(mark.word);
      letters_.insert(word.begin(), word.end());
      ends_.emplace(word, mark.behind);
      for (size_t length = 1; length < word.size(); ++length) {
        const std::u32string beginning = word.substr(0, length);
        if (!states_.contains(beginning)) states_.emplace(beginning, ebnf_.add_rule());
      }
    }
    for (const auto& [beginning, rule] : states_) fill(rule, beginning, {});
  }

  int any() const { return states_.at(U""); }
  int without_first(const CharSet& not_first) {
    const int rule = ebnf_.add_rule();
    fill(rule, U"", not_first);
    return rule;
  }

 private:
  void fill(int rule, const std::u32string& beginning, const CharSet& never) {
    ebnf_.add(rule, {});
    CharSet taken = never;
    for (const char32_t c : letters_) {
      if (!contains(never, c)) step(rule, beginning, c);
      taken.emplace_back(c, c);
    }
    const CharSet others = complement(normalized(std::move(taken)));
    ebnf_.add(rule, {Part::of(class_text(others)), Part::ref(any())});
  }

  void step(int rule, const std::u32string& beginning, char32_t c) {
    const Part letter = Part::of(class_text({{c, c}}));
    for (std::u32string rest = beginning + c;; rest.erase(0, 1)) {
      if (const auto end = ends_.find(rest); end != ends_.end()) {
        if (end->second >= 0) ebnf_.add(rule, {letter, Part::ref(end->second)});
        return;
      }
      if (const auto state = states_.find(rest); state != states_.end()) {
        return ebnf_.add(rule, {letter, Part::ref(state->second)});
      }
    }
  }

  Ebnf& ebnf_;
  std::set<char32_t> letters_;  // of all marks
  std::map<std::u32string, int> states_, ends_;
};

const CharSet kBlanks = {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}};
const CharSet kNameChars = normalized({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}});
// Behind the first.
const CharSet kMoreNameChars = normalized([] {
  CharSet more = kNameChars;
  more.insert(more.end(), {{'.', '.'}, {'-', '-'}});
  return more;
}());

CharSet none_of(std::initializer_list<CharSet> sets) {
  CharSet all;
  for (const CharSet& set : sets) all.insert(all.end(), set.begin(), set.end());
  return complement(normalized(std::move(all)));
}

}  // namespace

int add_marked_text(Ebnf* ebnf, const std::vector<Mark>& marks, const CharSet& not_first) {
  MarkedText text(ebnf, marks);
  return not_first.empty() ? text.any() : text.without_first(not_first);
}

int add_listed_text(Ebnf* ebnf, const std::map<std::string, int>& calls) {
  const CharSet kOpen = {{'[', '['}}, kCall = {{'(', '('}};
  const auto to = [&](int rule, const CharSet& set, int next) {
    if (!set.empty()) ebnf->add(rule, {Part::of(class_text(set)), Part::ref(next)});
  };
  const int text = ebnf->add_rule(), open = ebnf->add_rule(), other_name = ebnf->add_rule();
  for (const int rule : {text, other_name}) {
    ebnf->add(rule, {});
    to(rule, kOpen, open);
  }
  to(text, none_of({kOpen}), text);
  to(other_name, kMoreNameChars, other_name);
  to(other_name, none_of({kMoreNameChars, kOpen}), text);
  // A rule for each beginning of a name behind "[".
  std::map<std::string, int> names = {{"", open}};
  for (const auto& [name, behind] : calls) {
    for (size_t length = 1; length <= name.size(); ++length) {
      const std::string beginning = name.substr(0, length);
      if (!names.contains(beginning)) names.emplace(beginning, ebnf->add_rule());
    }
  }
  for (const auto& [beginning, rule] : names) {
    const bool first = beginning.empty();
    const CharSet& name_chars = first ? kNameChars : kMoreNameChars;
    CharSet longer;
    for (const auto& [c, last] : name_chars) {
      for (char32_t each = c; each <= last; ++each) {
        const auto next = names.find(beginning + static_cast<char>(each));
        if (next == names.end()) continue;
        longer.emplace_back(each, each);
        to(rule, {{each, each}}, next->second);
      }
    }
    ebnf->add(rule, {});
    to(rule, intersection(name_chars, complement(normalized(longer))), other_name);
    to(rule, kOpen, open);
    if (first) to(rule, kBlanks, open);
    const auto call = calls.find(beginning);
    if (call != calls.end()) to(rule, kCall, call->second);
    to(rule,
       none_of({name_chars, kOpen, first ? kBlanks : CharSet{},
                call != calls.end() ? kCall : CharSet{}}),
       text);
  }
  return text;
}

}  // namespace quern::grammar

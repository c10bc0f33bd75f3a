// For tests: a small vocabulary with every byte and some longer tokens, and what a grammar takes.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"

namespace quern::grammar {

inline constexpr std::int32_t kTestEnd = 0;

inline const std::vector<std::string>& test_tokens() {
  static const std::vector<std::string> tokens = [] {
    std::vector<std::string> all = {""};
    for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
    for (const char* word :
         {"ab",  "abc", "true", "null", "\":",  "\",",      "{\"", "12",           "0.5",
          "é",   "éé",  "  ",   "\n  ", "name", "\"name\"", "</",  "\xC3\xA9\xE2", "\\\"",
          "\"}", "a\"", "b ",   " ab",  "}}",   "1]",       "2,",  "<tool_call>"}) {
      all.emplace_back(word);
    }
    return all;
  }();
  return tokens;
}

inline const Vocabulary& test_vocabulary() {
  static const Vocabulary vocabulary(test_tokens(), std::ssize(test_tokens()) + 3, {kTestEnd});
  return vocabulary;
}

inline std::shared_ptr<const Compiled> compiled(const Grammar& grammar,
                                                const JsonStyle& style = {}) {
  const Source source = read_grammar(grammar, style);
  return std::make_shared<const Compiled>(test_vocabulary(), source.notation, source.text);
}

inline std::shared_ptr<const Compiled> compiled_schema(std::string schema) {
  return compiled({Grammar::Kind::kJsonSchema, std::move(schema)});
}

inline std::shared_ptr<const Compiled> compiled_regex(std::string pattern) {
  return compiled({Grammar::Kind::kRegex, std::move(pattern)});
}

// Whether the whole text may be written, and may end there.
inline bool takes(const std::shared_ptr<const Compiled>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept_text(std::string(text)) && matcher.complete();
}

inline bool allowed(const Mask& mask, size_t token) {
  return (static_cast<std::uint32_t>(mask[token / 32]) >> (token % 32) & 1) != 0;
}

// Tokens drawn from those that the mask allows, each as likely, until the end or `most`. Now and
// then one of the words instead, where it may come: chance alone would hardly write them.
struct Drawn {
  std::string text{};
  bool ended = false, stuck = false;
};
inline Drawn draw(const std::shared_ptr<const Compiled>& grammar, unsigned seed, int most = 400,
                  const std::vector<std::string>& words = {}) {
  std::mt19937 random(seed);
  Matcher matcher(grammar);
  Mask mask;
  Drawn drawn;
  for (int i = 0; i < most && !drawn.ended && !drawn.stuck; ++i) {
    if (!words.empty() && random() % 8 == 0) {
      const std::string& word = words[random() % words.size()];
      if (matcher.accept_text(word)) drawn.text += word;
    }
    matcher.fill(&mask);
    std::vector<std::int32_t> may;
    for (size_t token = 0; token < test_tokens().size(); ++token) {
      if (allowed(mask, token)) may.push_back(static_cast<std::int32_t>(token));
    }
    // Late in a text the end is taken where it may come.
    const bool ends = !may.empty() && may[0] == kTestEnd && i > most / 2;
    const std::int32_t token = may.empty() ? -1 : ends ? kTestEnd : may[random() % may.size()];
    drawn.stuck = token < 0 || !matcher.accept(token);
    if (!drawn.stuck) drawn.text += test_tokens()[static_cast<size_t>(token)];
    drawn.ended = matcher.ended();
  }
  return drawn;
}

}  // namespace quern::grammar

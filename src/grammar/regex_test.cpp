// Patterns as grammars: what they match, as std::regex sees it, and what is refused.
#include "grammar/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <regex>

#include "base/errors/grammar.h"
#include "grammar/test_grammars.h"

namespace quern::grammar {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& pattern) {
  try {
    compiled_regex(pattern);
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kGrammarInvalid);
    return error.message();
  }
  return "";
}

TEST(GrammarRegex, TakesWhatEcmaScriptMatchesAndNothingElse) {
  const std::vector<std::string> patterns = {"abc",         "a|b|cd",         "(a|b)*c",
                                             "a{2,4}",      "a{3}",           "a{2,}b",
                                             "[a-c]+",      "[^a-c]",         "\\d{3}-\\d{2}",
                                             "\\w+@\\w+",   "a?b?c?",         "(ab|a)(bc|c)",
                                             "(?:x|yz){2}", "x*?y+?",         "\\s",
                                             "[\\d\\-x]",   "a\\.b",          "",
                                             "(|a)b",       "[]]x|[x]",       "\\x41\\u0042",
                                             "a{0}b",       "(a{1,3}b){2,3}", "[+*?.]",
                                             "^a$",         "^(?:a|b)$",      "(^a|^b)(c$|d$)",
                                             "{x}",         "a{,2}",          "\\/",
                                             "[^\\w]"};
  const std::vector<std::string> texts = {
      "",        "a",    "b",  "c",    "ab", "abc",    "aa",    "aaa", "aaaa", "aaaaa", "aab",
      "aaab",    "abab", "cd", "bc",   "d",  "123-45", "12-45", "x@y", "ac",   "abbc",  "xx",
      "yzx",     "y",    "xy", "xxyy", " ",  "\t",     "-",     "a.b", "axb",  "AB",    "babab",
      "aababab", "+",    ".",  "bd",   "ad", "{x}",    "a{,2}", "/",   "x",    "]x",    "!"};
  for (const std::string& pattern : patterns) {
    if (pattern == "[]]x|[x]") continue;  // std::regex reads it in POSIX's way
    const auto grammar = compiled_regex(pattern);
    for (const std::string& text : texts) {
      bool matches = false;
      if (pattern == "{x}" || pattern == "a{,2}") {
        matches = text == pattern;  // which std::regex refuses
      } else {
        matches = std::regex_match(text, std::regex(pattern, std::regex::ECMAScript));
      }
      EXPECT_EQ(takes(grammar, text), matches) << pattern << " on " << text;
    }
  }
}

TEST(GrammarRegex, LargeRepetitionsCountExactly) {
  for (const auto& [pattern, least, most] : {std::tuple{"a{0,200}", 0, 200},
                                             {"a{33,97}", 33, 97},
                                             {"(ab){0,129}", 0, 258},
                                             {"a{1000}", 1000, 1000},
                                             {"[^\"]{2000,2100}", 2000, 2100}}) {
    const auto grammar = compiled_regex(pattern);
    const std::string unit = std::string(pattern).starts_with("(ab)") ? "ab" : "a";
    const auto of = [&](int length) {
      std::string text;
      while (static_cast<int>(text.size()) < length) text += unit;
      return text;
    };
    const int step = static_cast<int>(unit.size());
    for (const int length :
         {least, least + step, (least + most) / 2 / step * step, most - step, most}) {
      if (length < least || length > most) continue;
      EXPECT_TRUE(takes(grammar, of(length))) << pattern << " " << length;
    }
    EXPECT_FALSE(takes(grammar, of(most + step))) << pattern;
    EXPECT_FALSE(least > 0 && takes(grammar, of(least - step))) << pattern;
  }
}

TEST(GrammarRegex, MasksAndTokensAgreeOnCharactersOfSeveralBytes) {
  for (const char* pattern : {"[^a]{0,300}", ".{20,40}é", "[é-ú]+", "(é|éé|\\u{1F600})*"}) {
    const auto grammar = compiled_regex(pattern);
    for (unsigned seed = 0; seed < 20; ++seed) {
      const Drawn drawn = draw(grammar, seed);
      EXPECT_FALSE(drawn.stuck) << pattern << " " << seed;
    }
  }
}

TEST(GrammarRegex, WhatNoGrammarSaysIsRefusedWithItsPlace) {
  for (const auto& [pattern, reason] :
       std::vector<std::pair<std::string, std::string>>{{"a(?=b)", "lookahead"},
                                                        {"a(?!b)", "lookahead"},
                                                        {"(?<=a)b", "lookbehind"},
                                                        {"(a)\\1", "backreferences"},
                                                        {"\\bword", "\\b"},
                                                        {"(?i)a", "flags"},
                                                        {"a^b", "'^'"},
                                                        {"a$b", "'$'"},
                                                        {"(^a)*", "'^'"},
                                                        {"\\p{L}", "\\p"},
                                                        {"a**", "two repetitions"},
                                                        {"*a", "nothing to repeat"},
                                                        {"(a", "does not end"},
                                                        {"a)", "unmatched"},
                                                        {"[a", "does not end"},
                                                        {"[b-a]", "ends before"},
                                                        {"a{5,2}", "below"},
                                                        {"a\\", "backslash"},
                                                        {"[]", "no character"},
                                                        {"\\ud800", "surrogate"},
                                                        {"a{20000}", "more than"},
                                                        {"((a{100}){100}){100}", "more than"},
                                                        {"(.{0,100}){0,100}", "more than"},
                                                        {"\\kx", "\\k"},
                                                        {"(?P<n", "name"}}) {
    EXPECT_THAT(refusal(pattern), HasSubstr(reason)) << pattern;
    EXPECT_THAT(refusal(pattern), HasSubstr("regex grammar: ")) << pattern;
  }
  EXPECT_THAT(refusal(std::string(20000, 'a')), HasSubstr("limit"));
  EXPECT_THAT(refusal(std::string("a\xff")), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(std::string("a\0b", 3)), HasSubstr("NUL"));
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += '(';
  EXPECT_THAT(refusal(deep), HasSubstr("deep"));
}

TEST(GrammarRegex, HostilePatternsCompileAndMaskInBoundedTime) {
  const auto begin = std::chrono::steady_clock::now();
  for (const char* pattern :
       {"(a*)*b", "(a|aa)*b", "(a|a)*", "((a?){30}){30}", "(\\w+\\s?)*x", "(.{1,30}){1,30}",
        "([a-z]{1,30}|[a-y]{1,30}){1,15}", "(a|aa|aaa){200}"}) {
    const auto grammar = compiled_regex(pattern);
    Matcher matcher(grammar);
    Mask mask;
    for (int i = 0; i < 60; ++i) {
      matcher.fill(&mask);
      if (!matcher.accept_text("a")) break;
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace quern::grammar

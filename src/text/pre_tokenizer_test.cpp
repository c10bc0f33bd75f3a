#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors/text.h"
#include "text/regex_dialect.h"
#include "text/test_support.h"

namespace quern::text {
namespace {

using testing::ElementsAre;

std::vector<std::string> words_of(std::vector<PreTokenizerStep> steps, std::string_view text) {
  const PreTokenizer splitter(std::move(steps));
  MatchScratch scratch;
  std::string storage;
  std::vector<std::string_view> words;
  splitter.split(text, true, scratch, storage, words);
  return {words.begin(), words.end()};
}

std::vector<std::string> split(std::string_view pattern, SplitBehavior behavior, bool invert,
                               std::string_view text) {
  return words_of(
      {SplitStep{Regex(pattern, false, "test"), behavior, invert}, ByteLevelStep{false, false}},
      text);
}

TEST(PreTokenizer, SplitsAsGpt2Does) {
  EXPECT_THAT(words_of({ByteLevelStep{}}, "It's  42 été,\n\n x"),
              ElementsAre("It", "'s", " ", " 42", " été", ",", "\n\n", " x"));
  EXPECT_THAT(words_of({ByteLevelStep{}}, "we'LL  "), ElementsAre("we", "'", "LL", "  "));
  EXPECT_THAT(words_of({ByteLevelStep{}}, ""), ElementsAre());
}

TEST(PreTokenizer, AppliesEachBehaviorToMatches) {
  const std::string text = "-ab--c-";
  EXPECT_THAT(split("-", SplitBehavior::kIsolated, false, text),
              ElementsAre("-", "ab", "-", "-", "c", "-"));
  EXPECT_THAT(split("-", SplitBehavior::kRemoved, false, text), ElementsAre("ab", "c"));
  EXPECT_THAT(split("-", SplitBehavior::kContiguous, false, text),
              ElementsAre("-", "ab", "--", "c", "-"));
  EXPECT_THAT(split("-", SplitBehavior::kMergedWithPrevious, false, text),
              ElementsAre("-", "ab-", "-", "c-"));
  EXPECT_THAT(split("-", SplitBehavior::kMergedWithNext, false, text),
              ElementsAre("-ab", "-", "-c", "-"));
  EXPECT_THAT(split("[a-z]+", SplitBehavior::kRemoved, true, text), ElementsAre("ab", "c"));
}

TEST(PreTokenizer, StepsOverEmptyMatches) {
  EXPECT_THAT(split("x*", SplitBehavior::kIsolated, false, "axxé"), ElementsAre("a", "xx", "é"));
  EXPECT_THAT(split("(?=b)", SplitBehavior::kIsolated, false, "abab"), ElementsAre("a", "ba", "b"));
}

TEST(PreTokenizer, PutsABlankBeforePiecesThatHaveNone) {
  EXPECT_THAT(words_of({ByteLevelStep{true, true}}, "a b"), ElementsAre(" a", " b"));
  EXPECT_THAT(words_of({ByteLevelStep{true, true}}, " a"), ElementsAre(" a"));
  EXPECT_THAT(words_of({digits_split(true), ByteLevelStep{true, false}}, "a1"),
              ElementsAre(" a", " 1"));
}

TEST(PreTokenizer, TakesDigitsOneByOneOrInRuns) {
  EXPECT_THAT(words_of({digits_split(true), ByteLevelStep{}}, "a12٣"),
              ElementsAre("a", "1", "2", "٣"));
  EXPECT_THAT(words_of({digits_split(false), ByteLevelStep{}}, "a12٣b"),
              ElementsAre("a", "12٣", "b"));
}

// Steps behind ByteLevel see its letters: the last byte of é (0xA9) is no digit, that of ² (0xB2)
// is.
TEST(PreTokenizer, RunsStepsBehindByteLevelOnItsAlphabet) {
  EXPECT_THAT(words_of({ByteLevelStep{false, false}, digits_split(false)}, "é²1 x"),
              ElementsAre("é\xC2",
                          "\xB2"
                          "1",
                          " x"));
}

TEST(PreTokenizer, ReadsWhiteSpaceAsUnicodeDefinesIt) {
  // U+180E is a format character today; U+0085 and U+3000 are white space.
  EXPECT_THAT(split(R"(\s+)", SplitBehavior::kRemoved, false, "a\u180Eb\u0085c\u3000d"),
              ElementsAre("a\u180Eb", "c", "d"));
  EXPECT_THAT(split(R"([^\s]+)", SplitBehavior::kRemoved, true, "a\u180Eb\u0085c"),
              ElementsAre("a\u180Eb", "c"));
  EXPECT_THAT(split(R"(\S+)", SplitBehavior::kRemoved, true, "a\u180Eb c"),
              ElementsAre("a\u180Eb", "c"));
}

// The c could be found, but not before every way to read the letters as a or a was tried.
TEST(PreTokenizer, KeepsOneWordWhereAPatternCostsTooMuch) {
  const std::string text = std::string(40, 'a') + "!c";
  EXPECT_THAT(split("(?:a|a)*c", SplitBehavior::kIsolated, false, text), ElementsAre(text));
  EXPECT_THAT(split("(?:a|a)*c", SplitBehavior::kIsolated, false, "aa!c"), ElementsAre("aa!", "c"));
}

TEST(PreTokenizer, SplitsAMegabyteWithoutABlank) {
  const std::string letters(1 << 20, 'a');
  EXPECT_THAT(words_of({digits_split(true), ByteLevelStep{}}, letters), ElementsAre(letters));
  const std::string blanks(1 << 20, ' ');
  EXPECT_THAT(words_of({ByteLevelStep{}}, blanks), ElementsAre(blanks));
}

TEST(RegexDialect, RefusesWhatTheTwoDialectsReadDifferently) {
  for (const char* pattern : {R"(\h)", R"(\1)", R"(\K)", R"([a&&b])", R"([a[b]])", R"([]a])",
                              R"((?m:a))", R"((?<name>a))", R"((*VERB)a)", "a\\"}) {
    test::expect_error(errors::kTokenizerUnsupported, {"split pattern"},
                       [&] { to_pcre_pattern(pattern, "test"); });
  }
  EXPECT_EQ(to_pcre_pattern(R"((?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|a{1,3}\[(?!x))", "test"),
            R"((?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|a{1,3}\[(?!x))");
}

// PCRE2 takes the name of a script for all characters that are used with it.
TEST(RegexDialect, ReadsNamesOfScripts) {
  EXPECT_EQ(to_pcre_pattern(R"([\p{Han}x]\p{^Greek}\P{Latin}\p{Lu}\p{Alphabetic}\p{^L})", "test"),
            R"([\p{sc:Han}x]\P{sc:Greek}\P{sc:Latin}\p{Lu}\p{Alphabetic}\p{^L})");
  EXPECT_THAT(split(R"(\p{Han}+)", SplitBehavior::kIsolated, false, "\u6F22\u3001\u5B57\u3005"),
              ElementsAre("\u6F22", "\u3001", "\u5B57\u3005"));
  test::expect_error(errors::kTokenizerUnsupported, {"split pattern"},
                     [&] { to_pcre_pattern(R"(\p{Han)", "test"); });
}

TEST(Regex, TellsWhereNothingCanBegin) {
  for (const char* digits : {"[0-9][0-9]", R"((?=[0-9\x{80}-\x{10FFFF}])\p{N})"}) {
    EXPECT_FALSE(Regex(digits, false, "test").can_match("letters")) << digits;
    EXPECT_TRUE(Regex(digits, false, "test").can_match("a1")) << digits;
  }
  for (const char* unknown : {"x*", "(?<=a)b?", R"(\p{Nl})"}) {
    EXPECT_TRUE(Regex(unknown, false, "test").can_match("letters")) << unknown;
  }
}

TEST(Regex, RefusesAnOverlongPattern) {
  test::expect_error(errors::kTokenizerInvalid, {"16384"},
                     [] { Regex(std::string(20000, 'a'), false, "test"); });
}

}  // namespace
}  // namespace quern::text

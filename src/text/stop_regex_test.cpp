#include "text/stop_regex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/errors/text.h"

namespace quern::text {
namespace {

using Kind = StopRegex::Kind;

void expect(const std::string& pattern, const std::string& text, Kind kind, std::size_t begin = 0,
            std::size_t end = 0, std::size_t start = 0, bool whole = false) {
  const StopRegex::Found found = StopRegex(pattern).find(text, start, whole);
  EXPECT_EQ(found.kind, kind) << pattern << " in " << text;
  if (found.kind == Kind::kMatch || found.kind == Kind::kPartial) {
    EXPECT_EQ(found.begin, begin) << pattern << " in " << text;
  }
  if (found.kind == Kind::kMatch) {
    EXPECT_EQ(found.end, end) << pattern << " in " << text;
  }
}

TEST(StopRegex, FindsTheLeftmostMatch) {
  expect("b+", "abbc", Kind::kMatch, 1, 3);
  expect("x|b", "abx", Kind::kMatch, 1, 2);
  expect(R"(\d{2}\p{L})", "a1 22é", Kind::kMatch, 3, 7);
  expect("(?i)end", "the END", Kind::kMatch, 4, 7);
  expect("(?P<q>['\"]).(?P=q)", "say 'a'", Kind::kMatch, 4, 7);
  expect("b", "abb", Kind::kMatch, 2, 3, 2);
  expect("q", "abc", Kind::kNone);
}

TEST(StopRegex, TellsWhereAMatchMayStillBegin) {
  expect("END", "the E", Kind::kPartial, 4);
  expect("END", "the EN", Kind::kPartial, 4);
  expect("END", "the EX", Kind::kNone);
  expect("<.*?>", "a <b", Kind::kPartial, 2);
  expect(R"(\n\n\w)", "a\n\n", Kind::kPartial, 1);
  expect("漢字", "a漢", Kind::kPartial, 1);
  // Behind the end of all nothing can come.
  expect("END", "the EN", Kind::kNone, 0, 0, 0, true);
  // A whole match counts before one that is not complete.
  expect("abcd|c", "abc", Kind::kMatch, 2, 3);
}

TEST(StopRegex, LooksBeforeItsStart) {
  expect("(?<=a)b", "ab", Kind::kMatch, 1, 2, 1);
  expect("(?<=x)b", "ab", Kind::kNone, 0, 0, 1);
  expect(R"(\bb)", "ab", Kind::kNone, 0, 0, 1);
  expect("(?m)^b", "a\nb", Kind::kMatch, 2, 3, 2);
  expect("^b", "a\nb", Kind::kNone, 0, 0, 2);
  EXPECT_GE(StopRegex("(?<=abc)d").context(), 12u);
}

TEST(StopRegex, RefusesWhatCannotBeSearched) {
  for (const std::string& pattern :
       {std::string(""), std::string("["), std::string("(a"), std::string("*a"), std::string("a**"),
        std::string("(?P=x)"), std::string(R"(\C)"), std::string("a*"), std::string("a|"),
        std::string(R"(\b)"), std::string("(?=a)"), std::string("\xFF"), std::string("(?<=a+)b"),
        std::string(200, '(') + "a" + std::string(200, ')'), std::string(1025, 'a'),
        std::string("((((a{1,1000}){1,1000}){1,1000}){1,1000})"), std::string("(?C1)(")}) {
    try {
      const StopRegex regex(pattern);
      ADD_FAILURE() << pattern.substr(0, 40);
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kStopRegexInvalid) << pattern.substr(0, 40);
      EXPECT_EQ(error.field("param"), "stop_regex");
    }
  }
}

// Patterns that backtrack without end, on texts of the length that is kept for one.
TEST(StopRegex, GivesUpInsteadOfSearchingForEver) {
  const std::string text(2048, 'a');
  for (const char* pattern : {"(a+)+b", "(a|a)*b", "(a|aa)+$b", "(.*)(.*)(.*)(.*)(.*)z",
                              "(?=(a+))*?a*b", R"((a*)*\1b)", "(?:a?){50}a{50}b"}) {
    const StopRegex regex(pattern);
    const auto begin = std::chrono::steady_clock::now();
    const StopRegex::Found found = regex.find(text, 0, false);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_NE(found.kind, Kind::kMatch) << pattern;
    EXPECT_LT(took.count(), 2.0) << pattern;  // without the limit: hours
  }
  EXPECT_EQ(StopRegex("(a+)+b").find(text, 0, false).kind, Kind::kGivenUp);
  // Usual patterns are far from the limit.
  EXPECT_EQ(StopRegex("(?s)<think>.*?</think>").find("<think>" + text, 0, false).kind,
            Kind::kPartial);
}

}  // namespace
}  // namespace quern::text

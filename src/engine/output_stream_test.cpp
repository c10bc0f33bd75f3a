#include "engine/output_stream.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace quern::engine {
namespace {

struct Outcome {
  std::string text, matched;
};

SamplingParams stops(std::vector<std::string> stop, std::vector<std::string> regex = {},
                     bool keep = false) {
  SamplingParams sampling;
  sampling.stop = std::move(stop);
  sampling.stop_regex = std::move(regex);
  sampling.no_stop_trim = keep;
  return sampling;
}

// Feeds `text` in pieces of `size` bytes.
Outcome feed(const std::string& text, const SamplingParams& sampling, size_t size) {
  OutputStream stream(sampling);
  Outcome outcome;
  for (size_t i = 0; i < text.size() && !stream.stopped(); i += size) {
    outcome.text += stream.push(text.substr(i, size));
  }
  outcome.text += stream.flush();
  outcome.matched = stream.matched_stop();
  return outcome;
}

// Every substring as a stop string, in every piece size: the text ends exactly before it.
TEST(OutputStream, EndsExactlyBeforeAStopString) {
  const std::string text = "aabaabaaab é漢 the end, the END";
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t length = 1; begin + length <= text.size() && length <= 8; ++length) {
      const std::string stop = text.substr(begin, length);
      for (size_t size : {1, 2, 3, 5, 100}) {
        const Outcome outcome = feed(text, stops({stop}), size);
        if (valid_utf8(stop) != stop) continue;  // half a character: not a text
        EXPECT_EQ(outcome.text, text.substr(0, text.find(stop))) << stop << " by " << size;
        EXPECT_EQ(outcome.matched, stop);
      }
    }
  }
}

TEST(OutputStream, NearMissesLoseNothing) {
  const std::string text = "one two three";
  for (const std::string stop : {"two thrx", "threeX", "zone", "three ", "ee\n"}) {
    for (size_t size : {1, 2, 4}) {
      EXPECT_EQ(feed(text, stops({stop}), size).text, text) << stop;
      EXPECT_EQ(feed(text, stops({stop}), size).matched, "");
    }
  }
}

TEST(OutputStream, HoldsBackOnlyWhatCanBecomeAStop) {
  OutputStream stream(stops({"END"}));
  EXPECT_EQ(stream.push("abE"), "ab");
  EXPECT_EQ(stream.push("N"), "");
  EXPECT_EQ(stream.push("x"), "ENx");
  EXPECT_EQ(stream.push("EN"), "");
  EXPECT_EQ(stream.flush(), "EN");
}

TEST(OutputStream, TheEarliestMatchWins) {
  EXPECT_EQ(feed("abcdef", stops({"cd", "bc"}), 100).text, "a");
  EXPECT_EQ(feed("abcdef", stops({"bc", "cd"}), 100).matched, "bc");
  EXPECT_EQ(feed("abcdef", stops({"bcd", "bc"}), 1).text, "a");
}

TEST(OutputStream, LooksForStopsInTheLastTextToo) {
  OutputStream stream(stops({"END"}));
  EXPECT_EQ(stream.push("abE"), "ab");
  EXPECT_EQ(stream.flush("NDx"), "");
  EXPECT_EQ(stream.matched_stop(), "END");
}

TEST(OutputStream, KeepsTheStopWhereItIsNotTrimmed) {
  for (size_t size : {1, 3, 100}) {
    EXPECT_EQ(feed("the END is", stops({"END"}, {}, true), size).text, "the END") << size;
    EXPECT_EQ(feed("the END is", stops({}, {"E.D"}, true), size).text, "the END") << size;
    EXPECT_EQ(feed("the END is", stops({"nowhere"}, {}, true), size).text, "the END is") << size;
  }
}

// What Python's re.search finds first in the text so far, whatever the pieces.
TEST(OutputStream, EndsExactlyBeforeAStopRegex) {
  const struct {
    const char *pattern, *text, *before;
  } kCases[] = {
      {R"(\d\d)", "a1b22c33", "a1b"},    {"END[.!]", "ENEND END. x", "ENEND "},
      {"(?m)^#", "a# b\n# c", "a# b\n"}, {R"(\n\s*\n)", "a\n \n b", "a"},
      {"(?<=b)a", "aba", "ab"},          {"漢.字", "é漢x字", "é"},
      {"never", "nevnever", "nev"},      {R"(\bno\b)", "note no x", "note "},
  };
  for (const auto& one : kCases) {
    for (const bool with_string : {false, true}) {
      OutputStream stream(
          stops(with_string ? std::vector<std::string>{"nowhere"} : std::vector<std::string>{},
                {"zzz", one.pattern}));
      std::string text;
      for (std::string_view rest = one.text; !rest.empty() && !stream.stopped();) {
        size_t length = 1;
        while (length < rest.size() && (rest[length] & 0xC0) == 0x80) ++length;
        text += stream.push(rest.substr(0, length));
        rest.remove_prefix(length);
      }
      text += stream.flush();
      if (std::string_view(one.pattern) == R"(\bno\b)") {
        EXPECT_EQ(text, "");  // an assertion takes the end so far for the end
      } else {
        EXPECT_EQ(text, one.before) << one.pattern;
      }
      EXPECT_EQ(stream.matched_stop(), one.pattern);
    }
  }
}

TEST(OutputStream, HoldsBackOnlyWhatCanBecomeAMatch) {
  OutputStream stream(stops({"!!"}, {R"(\d+-\d+\.)"}));
  EXPECT_EQ(stream.push("a 12"), "a ");
  EXPECT_EQ(stream.push("-"), "");
  EXPECT_EQ(stream.push("x"), "12-x");
  EXPECT_EQ(stream.push("!"), "");
  EXPECT_EQ(stream.push("3"), "!");
  EXPECT_EQ(stream.push("-4. b"), "");
  EXPECT_EQ(stream.matched_stop(), R"(\d+-\d+\.)");
}

TEST(OutputStream, TheEarliestOfStringsAndRegexesWins) {
  EXPECT_EQ(feed("abcdef", stops({"cd"}, {"b."}), 100).text, "a");
  EXPECT_EQ(feed("abcdef", stops({"bc"}, {"cd?"}), 100).matched, "bc");
  EXPECT_EQ(feed("abcdef", stops({"ef"}, {"f", "d(?=e)"}), 100).text, "abc");
}

// A match that began too long ago is given up, so that nothing is kept without bound.
TEST(OutputStream, HoldsBackNoMoreThanAMatchMaySpan) {
  OutputStream stream(stops({}, {"(?s)<.*>"}));
  EXPECT_EQ(stream.push("a<"), "a");
  std::string out;
  for (int i = 0; i < 3000; ++i) out += stream.push("é");
  EXPECT_EQ(out.substr(0, 3), "<é");
  EXPECT_EQ(valid_utf8(out), out);
  out += stream.push(">");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(
      out + stream.flush(), "<" + [] {
        std::string text;
        for (int i = 0; i < 3000; ++i) text += "é";
        return text;
      }() + ">");
}

TEST(OutputStream, TellsOfARegexThatIsTooCostly) {
  OutputStream stream(stops({}, {"(a+)+b"}));
  for (int i = 0; i < 100 && stream.too_costly().empty(); ++i) stream.push("aaa");
  EXPECT_EQ(stream.too_costly(), "(a+)+b");
  EXPECT_FALSE(stream.stopped());
}

}  // namespace
}  // namespace quern::engine

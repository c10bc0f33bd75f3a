#include "engine/output_stream.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace quern::engine {
namespace {

struct Outcome {
  std::string text, matched;
};

// Feeds `text` in pieces of `size` bytes.
Outcome feed(const std::string& text, std::vector<std::string> stop, size_t size) {
  OutputStream stream(std::move(stop));
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
        const Outcome outcome = feed(text, {stop}, size);
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
      EXPECT_EQ(feed(text, {stop}, size).text, text) << stop;
      EXPECT_EQ(feed(text, {stop}, size).matched, "");
    }
  }
}

TEST(OutputStream, HoldsBackOnlyWhatCanBecomeAStop) {
  OutputStream stream({"END"});
  EXPECT_EQ(stream.push("abE"), "ab");
  EXPECT_EQ(stream.push("N"), "");
  EXPECT_EQ(stream.push("x"), "ENx");
  EXPECT_EQ(stream.push("EN"), "");
  EXPECT_EQ(stream.flush(), "EN");
}

TEST(OutputStream, TheEarliestMatchWins) {
  EXPECT_EQ(feed("abcdef", {"cd", "bc"}, 100).text, "a");
  EXPECT_EQ(feed("abcdef", {"bc", "cd"}, 100).matched, "bc");
  EXPECT_EQ(feed("abcdef", {"bcd", "bc"}, 1).text, "a");
}

TEST(OutputStream, LooksForStopsInTheLastTextToo) {
  OutputStream stream({"END"});
  EXPECT_EQ(stream.push("abE"), "ab");
  EXPECT_EQ(stream.flush("NDx"), "");
  EXPECT_EQ(stream.matched_stop(), "END");
}

}  // namespace
}  // namespace quern::engine

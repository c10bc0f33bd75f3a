#include "text/utf8_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace quern::text {
namespace {

using namespace std::string_literals;
const std::string kR(kReplacement);

// Bytes, and what a decoder that replaces each maximal bad sequence makes of them.
const std::vector<std::pair<std::string, std::string>> kCases = {
    {"", ""},
    {"plain", "plain"},
    {"a\0b"s, "a\0b"s},
    {"é潮🙂", "é潮🙂"},
    {"\xEF\xBF\xBD", kR},
    {"\xEF\xBB\xBFx", "\xEF\xBB\xBFx"},
    {"\x80", kR},
    {"a\x80\xBF z", "a" + kR + kR + " z"},
    {"\xC0\xAF", kR + kR},  // overlong "/"
    {"\xC1\xBF", kR + kR},
    {"\xE0\x80\xAF", kR + kR + kR},  // overlong, three bytes
    {"\xE0\x9F\xBF", kR + kR + kR},
    {"\xF0\x80\x80\xAF", kR + kR + kR + kR},  // overlong, four bytes
    {"\xF0\x8F\xBF\xBF", kR + kR + kR + kR},
    {"\xED\xA0\x80", kR + kR + kR},  // surrogates
    {"\xED\xBF\xBF", kR + kR + kR},
    {"\xED\x9F\xBF", "\xED\x9F\xBF"},
    {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
    {"\xF4\x90\x80\x80", kR + kR + kR + kR},  // past U+10FFFF
    {"\xF5\x80\x80\x80", kR + kR + kR + kR},
    {"\xFE\xFF", kR + kR},
    {"\xC3", kR},
    {"\xC3(", kR + "("},
    {"\xE2\x82", kR},
    {"\xE2\x82(", kR + "("},
    {"\xE2(\xA1", kR + "(" + kR},
    {"\xF0\x9F", kR},
    {"\xF0\x9F\x99", kR},
    {"\xF0\x9F\x99x", kR + "x"},
    {"\xF0\x9F\xF0\x9F\x99\x82", kR + "🙂"},
    {"\xF0\x90\xC3\xA9", kR + "é"},
    {"\xE1\xA0\xC0\x80\xF1\x80\x80\xFF", kR + kR + kR + kR + kR},
    {"Z\xC3\xBCrich \xE6\xBD\xAE\xFF\xF0\x9F\x99\x82", "Zürich 潮" + kR + "🙂"},
};

bool whole(const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind != Utf8Kind::kValid) return false;
    rest.remove_prefix(step.length);
  }
  return true;
}

TEST(Utf8Decoder, ReplacesMaximalBadSequences) {
  for (const auto& [bytes, text] : kCases) {
    Utf8Decoder decoder;
    std::string out = decoder.push(bytes);
    EXPECT_TRUE(whole(out)) << text;
    out += decoder.flush();
    EXPECT_EQ(out, text);
  }
}

TEST(Utf8Decoder, GivesTheSameTextHoweverTheBytesAreCut) {
  for (const auto& [bytes, text] : kCases) {
    for (size_t i = 0; i <= bytes.size(); ++i) {
      for (size_t j = i; j <= bytes.size(); ++j) {
        Utf8Decoder decoder;
        std::string out;
        for (const auto& part : {bytes.substr(0, i), bytes.substr(i, j - i), bytes.substr(j)}) {
          const std::string pushed = decoder.push(part);
          EXPECT_TRUE(whole(pushed));
          out += pushed;
        }
        out += decoder.flush();
        EXPECT_EQ(out, text) << "cut at " << i << " and " << j;
      }
    }
  }
}

// Every string of up to four bytes over the borders of UTF-8's ranges, cut at every place.
TEST(Utf8Decoder, AgreesWithItselfOnAllShortStringsOfBorderBytes) {
  const std::string border =
      "a\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5"s;
  std::vector<std::string> strings = {""};
  for (size_t begin = 0, length = 0; length < 4; ++length) {
    const size_t end = strings.size();
    for (; begin < end; ++begin) {
      for (const char byte : border) strings.push_back(strings[begin] + byte);
    }
  }
  for (const std::string& bytes : strings) {
    Utf8Decoder at_once;
    std::string expected = at_once.push(bytes);
    expected += at_once.flush();
    ASSERT_TRUE(whole(expected));
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      Utf8Decoder decoder;
      std::string out = decoder.push(std::string_view(bytes).substr(0, cut));
      out += decoder.push(std::string_view(bytes).substr(cut));
      out += decoder.flush();
      ASSERT_EQ(out, expected);
    }
  }
}

TEST(Utf8Decoder, HoldsBackOnlyAnUnfinishedCharacter) {
  Utf8Decoder decoder;
  EXPECT_EQ(decoder.push("a\xF0"), "a");
  EXPECT_EQ(decoder.push("\x9F\x99"), "");
  EXPECT_EQ(decoder.push("\x82z"), "🙂z");
  EXPECT_EQ(decoder.flush(), "");
  EXPECT_EQ(decoder.push("\xE2"), "");
  EXPECT_EQ(decoder.flush(), kR);
  EXPECT_EQ(decoder.push("\x82"), kR);
}

}  // namespace
}  // namespace quern::text

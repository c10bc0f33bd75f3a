#include "text/normalizer.h"

#include <gtest/gtest.h>

#include "base/errors/text.h"
#include "text/decoder.h"
#include "text/test_support.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

using namespace std::string_literals;

std::string normal(std::vector<NormalizerStep> steps, std::string text) {
  MatchScratch scratch;
  Normalizer(std::move(steps)).run(text, scratch);
  return text;
}

// A charsmap of the given keys, all of one byte, and their texts, made as a double array by hand:
// the root's children stand at 256 ^ byte, and the value of each at its own offset.
std::string charsmap(const std::vector<std::pair<char, std::string>>& keys) {
  std::vector<std::uint32_t> units(1024, 0);
  std::string texts;
  units[0] = 256u << 10;
  std::uint32_t next = 512;
  for (const auto& [key, text] : keys) {
    const auto byte = static_cast<std::uint8_t>(key);
    const std::uint32_t node = 256u ^ byte;
    units[node] = (node ^ next) << 10 | 0x100u | byte;
    units[next++] = 0x80000000u | static_cast<std::uint32_t>(texts.size());
    texts += text + '\0';
  }
  const auto size = static_cast<std::uint32_t>(units.size() * 4);
  std::string blob(reinterpret_cast<const char*>(&size), 4);
  blob.append(reinterpret_cast<const char*>(units.data()), size);
  return blob + texts;
}

TEST(Normalizer, WritesTheNormalForms) {
  EXPECT_EQ(normal({UnicodeForm::kNfc}, "e\u0301 \uFB01"), "\u00E9 \uFB01");
  EXPECT_EQ(normal({UnicodeForm::kNfd}, "\u00E9"), "e\u0301");
  EXPECT_EQ(normal({UnicodeForm::kNfkc}, "e\u0301 \uFB01 \uFF21"), "\u00E9 fi A");
  EXPECT_EQ(normal({UnicodeForm::kNfkd}, "\u00E9 \u2460"), "e\u0301 1");
  EXPECT_EQ(normal({UnicodeForm::kNfd, StripAccentsStep{}}, "\u00E9t\u00E9"), "ete");
  EXPECT_EQ(normal({LowercaseStep{}}, "A\u0130\u03A3"), "ai\u0307\u03C3");
}

TEST(Normalizer, PutsReplacesAndStrips) {
  EXPECT_EQ(normal({PrependStep{"_"}, ReplaceStep{std::nullopt, " ", "_"}}, "a b "), "_a_b_");
  EXPECT_EQ(normal({PrependStep{"_"}}, ""), "");
  const Regex runs(" {2,}", false, "test");
  EXPECT_EQ(normal({ReplaceStep{runs, "", " "}}, "a   b  c d"), "a b c d");
  EXPECT_EQ(normal({StripStep{true, false}}, " \u3000a "), "a ");
  EXPECT_EQ(normal({StripStep{false, true}}, " a \u3000"), " a");
  EXPECT_EQ(normal({StripStep{}}, "  "), "");
  EXPECT_EQ(normal({StripStep{false, true}}, "  "), "");
}

TEST(Normalizer, CleansTextAsBertDoes) {
  EXPECT_EQ(normal({BertStep{}}, "H\u00E9llo\tW\x01orld\u200B\u5929x"s), "hello world \u5929 x");
  EXPECT_EQ(normal({BertStep{true, false, false, false}}, "H\u00E9\u5929\n"), "H\u00E9\u5929 ");
  EXPECT_EQ(normal({NmtStep{}},
                   "a\x01\u200B"s
                   "b"),
            "a b");
}

TEST(Normalizer, TreatsBlanksAsSentencePieceDoes) {
  const auto blanks = [](bool dummy, bool collapse, const std::string& text, bool behind = false) {
    return normal({SentencePieceStep{{}, dummy, collapse, true, behind}}, text);
  };
  EXPECT_EQ(blanks(true, true, "  a  b "), "▁a▁b");
  EXPECT_EQ(blanks(true, false, " a  b "), "▁▁a▁▁b▁");
  EXPECT_EQ(blanks(false, true, " a "), "a");
  EXPECT_EQ(blanks(true, true, "   "), "");
  EXPECT_EQ(blanks(true, false, ""), "");
  EXPECT_EQ(blanks(true, true, "a b", true), "a▁b▁");
}

TEST(Charsmap, ReplacesKeysAndRefusesBrokenTables) {
  const std::string blob = charsmap({{'a', "xy"}, {'b', ""}, {'\t', " "}});
  EXPECT_EQ(normal({CharsmapStep{Charsmap(blob, "test")}}, "cab\tz"), "cxy z");
  EXPECT_EQ(normal({SentencePieceStep{Charsmap(blob, "test")}}, "ab\t\ta"), "▁xy▁xy");
  // A cluster is replaced whole where its first character is a key.
  EXPECT_EQ(normal({CharsmapStep{Charsmap(blob, "test")}}, "a\u0301c"), "xyc");
  for (const std::string& bad : {std::string("\x08"), std::string("\x08\0\0\0abcd"s),
                                 std::string("\x03\0\0\0abc"s), blob + "x"}) {
    test::expect_error(errors::kTokenizerInvalid, {"charsmap"}, [&] { Charsmap(bad, "test"); });
  }
  // Every way through a table of noise stays inside it.
  std::string noise = blob;
  for (std::size_t i = 4; i < noise.size() - 1; ++i) {
    noise[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  const Charsmap map(noise, "test");
  for (int c = 0; c < 256; ++c) {
    const std::string text(8, static_cast<char>(c));
    map.match(text, true);
  }
}

TEST(Unicode, FindsGraphemeClusters) {
  using Ends = std::vector<std::size_t>;
  EXPECT_EQ(grapheme_ends("ab"), (Ends{1, 2}));
  EXPECT_EQ(grapheme_ends("a\r\nb"), (Ends{1, 3, 4}));
  EXPECT_EQ(grapheme_ends("ae\u0301x"), (Ends{1, 4, 5}));
  EXPECT_EQ(grapheme_ends("\u0600"
                          "1z"),
            (Ends{3, 4}));
  EXPECT_EQ(grapheme_ends(""), Ends{});
}

TEST(Utf8, ReadsAndWritesCharacters) {
  for (const char32_t code : {U'a', U'\u00E9', U'\u6F6E', U'\U0001F642', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(code, text);
    std::size_t at = 0;
    EXPECT_EQ(next_char(text, at), code);
    EXPECT_EQ(at, text.size());
  }
  EXPECT_EQ(replace_invalid("a\xF0\x9F\xFF"), "a\uFFFD\uFFFD");
}

Decoder::Text written(std::vector<DecoderStep> steps, std::string_view token) {
  MatchScratch scratch;
  return Decoder(std::move(steps)).text_of(token, false, scratch);
}

TEST(Decoder, WorksOutWhatTokensWrite) {
  EXPECT_EQ(written({ByteLevelDecode{}}, "Ġa").inside, " a");
  EXPECT_EQ(written({ByteLevelDecode{}}, "<a b>").inside, "<a b>");
  EXPECT_EQ(written({ByteFallbackDecode{}}, "<0xE2>").inside, "\xE2");
  EXPECT_EQ(written({MetaspaceDecode{}}, "▁a▁").inside, " a ");
  EXPECT_EQ(written({MetaspaceDecode{}}, "▁a▁").first, "a");
  EXPECT_EQ(written({MetaspaceDecode{"▁", false}}, "▁a").first, " a");
  EXPECT_EQ(written({WordPieceDecode{}}, "##a").inside, "a");
  EXPECT_EQ(written({WordPieceDecode{}}, "##a").first, "##a");
  EXPECT_EQ(written({WordPieceDecode{}}, "a").inside, " a");
  EXPECT_EQ(written({WordPieceDecode{}}, ".").inside, ".");
  EXPECT_EQ(written({WordPieceDecode{"##", false}}, ".").inside, " .");
  EXPECT_EQ(written({JoinDecode{}}, "a").inside, " a");
  EXPECT_EQ(written({ReplaceDecode{std::nullopt, "_", " "}, StripDecode{" ", 1, 1}}, "__a_").inside,
            " a");
  EXPECT_EQ(written({FuseDecode{}, StripDecode{" ", 1, 0}}, " a").inside, " a");
  EXPECT_EQ(Decoder({FuseDecode{}, StripDecode{" ", 1, 0}}).rules().strip_begin, 1);
  EXPECT_EQ(Decoder({StripDecode{" ", 1, 0}}).rules().strip_begin, 0);
}

}  // namespace
}  // namespace quern::text

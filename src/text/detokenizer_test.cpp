#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/utf8.h"

namespace quern::text {
namespace {

using Ids = std::vector<std::int32_t>;

// Tokens as they are given; those that begin with '<' are control tokens.
class Fake : public Tokenizer {
 public:
  struct Token {
    std::string inside, first;
  };

  explicit Fake(std::vector<Token> tokens, DecodeRules rules = {})
      : tokens_(std::move(tokens)), rules_(std::move(rules)) {}

  using Tokenizer::encode;
  Ids encode(std::span<const PromptPiece>, EncodeOptions) const override { return {}; }
  TokenText text(std::int32_t id) const override {
    if (id < 0 || id >= size()) return {};
    const Token& token = tokens_[static_cast<std::size_t>(id)];
    return {token.inside, token.first, true};
  }
  bool is_control(std::int32_t id) const override { return text(id).inside.starts_with('<'); }
  std::int32_t id_of(std::string_view) const override { return -1; }
  std::int32_t size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  DecodeRules decode_rules() const override { return rules_; }

 private:
  std::vector<Token> tokens_;
  DecodeRules rules_;
};

Fake plain(const std::vector<std::string>& tokens, DecodeRules rules = {}) {
  std::vector<Fake::Token> list;
  for (const std::string& token : tokens) list.push_back({token, token});
  return Fake(std::move(list), std::move(rules));
}

// Token by token; decode() of the same ids must say the same.
std::string text_of(const Tokenizer& tokenizer, const Ids& ids, DecodeOptions options = {}) {
  Detokenizer detokenizer(tokenizer, options);
  std::string text;
  for (const std::int32_t id : ids) text += detokenizer.push(id);
  text += detokenizer.flush();
  EXPECT_EQ(decode(tokenizer, ids, options), text);
  return text;
}

TEST(Detokenizer, WritesTheFirstTokenInItsOwnWay) {
  const Fake tokenizer({{"<s>", "<s>"}, {" a", "a"}, {" b", "b"}});
  EXPECT_EQ(text_of(tokenizer, {1, 2}), "a b");
  EXPECT_EQ(text_of(tokenizer, {0, 1, 0, 2}), "a b");
  EXPECT_EQ(text_of(tokenizer, {0, 1, 0, 2}, {.skip_special_tokens = false}), "<s> a<s> b");
  EXPECT_EQ(text_of(tokenizer, {1, 2}, {.begins = false}), " a b");
  EXPECT_EQ(text_of(tokenizer, {7, 1, -1, 2000000000, 2}), "a b");
}

TEST(Detokenizer, CountsTokensAsFirstUntilOneHasWrittenWhereAsked) {
  DecodeRules rules;
  rules.begins_until_text = true;
  const Fake tokenizer({{" ", ""}, {" a", "a"}}, rules);
  EXPECT_EQ(text_of(tokenizer, {0, 0, 1, 1}), "a a");
  const Fake once({{" ", ""}, {" a", "a"}});
  EXPECT_EQ(text_of(once, {0, 0, 1, 1}), "  a a");
}

TEST(Detokenizer, TakesCharactersOffTheEnds) {
  DecodeRules rules;
  rules.strip = " ";
  rules.strip_begin = 2;
  rules.strip_end = 1;
  const Fake tokenizer = plain({" ", "a", "   b", "é", "<s>"}, rules);
  EXPECT_EQ(text_of(tokenizer, {0, 0, 0, 1}), " a");
  EXPECT_EQ(text_of(tokenizer, {4, 0, 1, 0}), "a");
  EXPECT_EQ(text_of(tokenizer, {2, 0, 0}), " b ");
  EXPECT_EQ(text_of(tokenizer, {3, 0, 1}), "é a");
  EXPECT_EQ(text_of(tokenizer, {0, 1, 0}, {.begins = false}), " a");
  EXPECT_EQ(text_of(tokenizer, {0, 0, 0}), "");
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push(1), "a");
  EXPECT_EQ(detokenizer.push(0), "");
  EXPECT_EQ(detokenizer.push(0), " ");
  EXPECT_EQ(detokenizer.push(1), " a");
}

TEST(Detokenizer, JoinsCharactersOfSeveralTokens) {
  const Fake tokenizer = plain({"\xE6\xBC", "\xA2!", "\xF0\x9F", "<s>"});
  EXPECT_EQ(text_of(tokenizer, {0, 3, 1}), "漢!");
  EXPECT_EQ(text_of(tokenizer, {0, 1, 2}), "漢!\xEF\xBF\xBD");
  Detokenizer detokenizer(tokenizer);
  EXPECT_EQ(detokenizer.push(0), "");
  EXPECT_EQ(detokenizer.push(1), "漢!");
}

TEST(Detokenizer, ReplacesEachByteWhereAsked) {
  DecodeRules rules;
  rules.replace = Utf8Decoder::Replace::kBytes;
  const std::string r(kReplacement);
  EXPECT_EQ(text_of(plain({"\xE6\xBC", "x"}, rules), {0, 1, 0}), r + r + "x" + r + r);
  EXPECT_EQ(text_of(plain({"\xE6\xBC", "x"}), {0, 1, 0}), r + "x" + r);
}

}  // namespace
}  // namespace quern::text

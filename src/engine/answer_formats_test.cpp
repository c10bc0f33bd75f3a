#include "engine/answer_formats.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/answer_grammar.h"

namespace quern::engine {
namespace {

// One token a byte, and control tokens from 256 on.
class MarkTokenizer : public text::Tokenizer {
 public:
  MarkTokenizer() {
    for (int i = 0; i < 256; ++i) texts_.emplace_back(1, static_cast<char>(i));
    for (const char* mark : {"<|im_end|>", "<think>", "</think>", "<|tool_call_begin|>"}) {
      texts_.emplace_back(mark);
    }
  }
  using text::Tokenizer::encode;
  std::vector<std::int32_t> encode(std::span<const PromptPiece> pieces,
                                   text::EncodeOptions) const override {
    std::vector<std::int32_t> ids;
    for (const PromptPiece& piece : pieces) {
      if (const std::int32_t id = id_of(piece.text); id >= 256) {
        ids.push_back(id);
        continue;
      }
      for (const char c : piece.text) ids.push_back(static_cast<unsigned char>(c));
    }
    return ids;
  }
  text::TokenText text(std::int32_t id) const override {
    const std::string& text = texts_.at(static_cast<size_t>(id));
    return {text, text, true};
  }
  bool is_control(std::int32_t id) const override { return id >= 256; }
  std::int32_t id_of(std::string_view text) const override {
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i] == text) return static_cast<std::int32_t>(i);
    }
    return -1;
  }
  std::int32_t size() const override { return static_cast<std::int32_t>(texts_.size()); }

 private:
  std::vector<std::string> texts_;
};

constexpr std::int32_t kEnd = 256, kOpen = 257, kClose = 258, kCall = 259;

EngineInfo info(const char* tools, const char* reasoning) {
  EngineInfo info;
  info.tool_call_parser = tools;
  info.reasoning_parser = reasoning;
  return info;
}

std::vector<std::int32_t> list(std::span<const std::int32_t> ids) {
  return {ids.begin(), ids.end()};
}

TEST(AnswerFormats, ShowsTheControlTokensOfItsMarksAlone) {
  const MarkTokenizer tokenizer;
  const AnswerFormats both(info("kimi_k2", "qwen3"), tokenizer);
  EXPECT_EQ(list(both.shown(false)), (std::vector<std::int32_t>{kOpen, kClose}));
  EXPECT_EQ(list(both.shown(true)), (std::vector<std::int32_t>{kOpen, kClose, kCall}));
  const AnswerFormats none(info("", ""), tokenizer);
  EXPECT_TRUE(none.shown(true).empty());
  EXPECT_TRUE(none.closing().empty());

  text::DecodeOptions options;
  options.shown = both.shown(true);
  const std::vector<std::int32_t> ids = {'a', kCall, kEnd, 'b'};
  EXPECT_EQ(text::decode(tokenizer, ids, options), "a<|tool_call_begin|>b");
}

TEST(AnswerFormats, ReadsTheEndOfThePrompt) {
  const MarkTokenizer tokenizer;
  const AnswerFormats formats(info("", "qwen3"), tokenizer);
  EXPECT_EQ(formats.start(std::vector<std::int32_t>{'a', kOpen, '\n'}), ReasoningStart::kOpen);
  EXPECT_EQ(formats.start(std::vector<std::int32_t>{kOpen, '\n', kClose, '\n', '\n'}),
            ReasoningStart::kClosed);
  EXPECT_EQ(formats.start(std::vector<std::int32_t>{'a'}), ReasoningStart::kUnstated);
  EXPECT_EQ(formats.start(std::vector<std::int32_t>(100, 'a')), ReasoningStart::kUnstated);
  EXPECT_EQ(formats.start({}), ReasoningStart::kUnstated);
}

// What comes of a model that would write `wanted`, byte by byte, under a budget.
std::string under_budget(const AnswerFormats& formats, const text::Tokenizer& tokenizer,
                         ReasoningStart start, std::int64_t budget, const std::string& wanted) {
  ThinkingBudget thinking(formats, start, budget);
  std::string text;
  for (size_t i = 0; i < wanted.size();) {
    const auto forced = thinking.forced();
    const std::string piece =
        forced ? std::string(tokenizer.text(*forced).inside) : std::string(1, wanted[i++]);
    thinking.take(piece);
    text += piece;
  }
  return text;
}

TEST(ThinkingBudget, ClosesReasoningWhenItIsUsedUp) {
  const MarkTokenizer tokenizer;
  const AnswerFormats formats(info("", "qwen3"), tokenizer);
  const auto run = [&](ReasoningStart start, std::int64_t budget, const std::string& wanted) {
    return under_budget(formats, tokenizer, start, budget, wanted);
  };
  EXPECT_EQ(run(ReasoningStart::kUnstated, 3, "<think>abcdef"), "<think>abc</think>def");
  EXPECT_EQ(run(ReasoningStart::kOpen, 2, "abcd"), "ab</think>cd");
  EXPECT_EQ(run(ReasoningStart::kOpen, 0, "abcd"), "</think>abcd");
  EXPECT_EQ(run(ReasoningStart::kUnstated, 0, "<think>ab"), "<think></think>ab");
  // Reasoning that ends by itself, and answers without any, are left alone.
  EXPECT_EQ(run(ReasoningStart::kOpen, 20, "ab</think>cdefghijklmnopqrstuvwxyz"),
            "ab</think>cdefghijklmnopqrstuvwxyz");
  EXPECT_EQ(run(ReasoningStart::kClosed, 0, "abcd"), "abcd");
  EXPECT_EQ(run(ReasoningStart::kUnstated, 0, "abcd"), "abcd");
}

// A closing mark of several tokens is written to its end.
TEST(ThinkingBudget, WritesEveryTokenOfTheMark) {
  const MarkTokenizer tokenizer;
  const AnswerFormats formats(info("", "mistral"), tokenizer);
  EXPECT_EQ(formats.closing().size(), std::string_view("[/THINK]").size());
  EXPECT_EQ(under_budget(formats, tokenizer, ReasoningStart::kUnstated, 1, "[THINK]abc"),
            "[THINK]a[/THINK]bc");
}

// A grammar of "yes" over those tokens.
class GrammarOfYes {
 public:
  GrammarOfYes(ReasoningStart start, const AnswerFormats& formats)
      : grammar_(compiled(), "regex", formats, start, ends_) {}

  // The tokens that may come next.
  std::vector<std::int32_t> next() {
    grammar_.prepare();
    const std::vector<float> row(260, 0.0F);
    std::vector<float> scratch;
    const std::span<const float> left = grammar_.apply(row, &scratch);
    std::vector<std::int32_t> ids;
    for (size_t id = 0; id < left.size(); ++id) {
      if (left[id] == 0) ids.push_back(static_cast<std::int32_t>(id));
    }
    return ids;
  }
  AnswerGrammar* operator->() { return &grammar_; }

 private:
  static std::shared_ptr<const grammar::Compiled> compiled() {
    std::vector<std::string> bytes(260);
    for (size_t i = 1; i < 256; ++i) bytes[i] = static_cast<char>(i);
    const grammar::Vocabulary vocabulary(bytes, 260, {kEnd});
    return std::make_shared<const grammar::Compiled>(vocabulary, grammar::Notation::kEbnf,
                                                     "root ::= \"yes\"");
  }
  static constexpr std::int32_t ends_[] = {kEnd};
  AnswerGrammar grammar_;
};

TEST(AnswerGrammar, BeginsBehindOpenReasoning) {
  const MarkTokenizer tokenizer;
  const AnswerFormats formats(info("", "qwen3"), tokenizer);
  GrammarOfYes yes(ReasoningStart::kOpen, formats);
  EXPECT_EQ(yes.next().size(), 259U);  // all but the end
  EXPECT_TRUE(yes->take('n', "n"));
  EXPECT_FALSE(yes->complete());
  EXPECT_TRUE(yes->forced().empty());
  EXPECT_TRUE(yes->take(kClose, "</think>"));
  EXPECT_EQ(yes.next(), std::vector<std::int32_t>{'y'});
  EXPECT_FALSE(yes->take('n', "n"));
  for (const char c : std::string("yes")) EXPECT_TRUE(yes->take(c, std::string(1, c)));
  EXPECT_TRUE(yes->complete());
  EXPECT_EQ(yes.next(), std::vector<std::int32_t>{kEnd});
}

TEST(AnswerGrammar, AnAnswerMayOpenReasoningWithItsFirstTokenOnly) {
  const MarkTokenizer tokenizer;
  const AnswerFormats formats(info("", "qwen3"), tokenizer);
  GrammarOfYes thinks(ReasoningStart::kUnstated, formats);
  EXPECT_EQ(thinks.next(), (std::vector<std::int32_t>{'y', kOpen}));
  EXPECT_TRUE(thinks->take(kOpen, "<think>"));
  EXPECT_EQ(thinks.next().size(), 259U);
  // The token that closes may write what belongs to the answer.
  EXPECT_TRUE(thinks->take('x', "</think>\n\nye"));
  EXPECT_EQ(thinks.next(), std::vector<std::int32_t>{'s'});
  GrammarOfYes answers(ReasoningStart::kUnstated, formats);
  EXPECT_TRUE(answers->take('y', "y"));
  EXPECT_EQ(answers.next(), std::vector<std::int32_t>{'e'});
  GrammarOfYes closed(ReasoningStart::kClosed, formats);
  EXPECT_EQ(closed.next(), std::vector<std::int32_t>{'y'});
}

}  // namespace
}  // namespace quern::engine

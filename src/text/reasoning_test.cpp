// Reasoning apart from the answer, in every format, and that no way to cut the text matters.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "quern/output_parsers.h"

namespace quern::text {
namespace {

struct Parts {
  std::string reasoning, content;
  bool operator==(const Parts&) const = default;
};

void PrintTo(const Parts& parts, std::ostream* out) {
  *out << "reasoning '" << parts.reasoning << "', content '" << parts.content << "'";
}

Parts split(std::string_view format, std::string_view text, ReasoningStart start,
            const std::vector<size_t>& cuts = {}) {
  const auto parser = make_reasoning_parser(format, start);
  Parts parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parser->push(text.substr(begin, cut - begin), &parts.reasoning, &parts.content);
    begin = cut;
  }
  parser->push(text.substr(begin), &parts.reasoning, &parts.content);
  parser->finish(&parts.reasoning, &parts.content);
  return parts;
}

Parts split_all_ways(std::string_view format, std::string_view text,
                     ReasoningStart start = ReasoningStart::kUnstated) {
  const Parts whole = split(format, text, start);
  std::vector<size_t> everywhere;
  for (size_t i = 1; i < text.size(); ++i) everywhere.push_back(i);
  EXPECT_EQ(split(format, text, start, everywhere), whole) << text;
  for (const size_t cut : everywhere) {
    EXPECT_EQ(split(format, text, start, {cut}), whole) << text << " at " << cut;
  }
  return whole;
}

TEST(Reasoning, BetweenMarks) {
  const struct {
    const char *format, *text;
    Parts parts;
  } kCases[] = {
      {"qwen3", "<think>\nI see.\n</think>\n\nHello.", {"I see.", "Hello."}},
      {"qwen3", "Hello.", {"", "Hello."}},
      {"qwen3", "<think>\n\n</think>\n\nHello.", {"", "Hello."}},
      {"qwen3", "\n<think>a</think>b <think>c</think>", {"a", "b <think>c</think>"}},
      {"qwen3", "The mark <think> opens it", {"", "The mark <think> opens it"}},
      {"qwen3", "<think>cut off </thi", {"cut off </thi", ""}},
      {"qwen3", "<think>a < b </thinking> c\n</think>d", {"a < b </thinking> c", "d"}},
      {"qwen3",
       "<think>call it\n<tool_call>\n{}</tool_call>",
       {"call it", "<tool_call>\n{}</tool_call>"}},
      {"qwen3-thinking", "I see.\n</think>\n\nHello.", {"I see.", "Hello."}},
      {"deepseek-r1", "I see.\n</think>\n\nHello.", {"I see.", "Hello."}},
      {"deepseek-r1", "<think>\nI see.</think>Hello.", {"I see.", "Hello."}},
      {"deepseek-r1", "all of it thought", {"all of it thought", ""}},
      {"deepseek-v3", "plain", {"", "plain"}},
      {"glm45", "<think>思考</think>答え", {"思考", "答え"}},
      {"kimi", "◁think▷hm◁/think▷yes", {"hm", "yes"}},
      {"kimi", "◁thin", {"", "◁thin"}},
      {"kimi_k2", "<think>a<|tool_calls_section_begin|>b", {"a", "<|tool_calls_section_begin|>b"}},
      {"minimax", "a</think>b", {"a", "b"}},
      {"minimax-append-think", "a</think>b", {"", "<think>a</think>b"}},
      {"minimax-append-think", "", {"", ""}},
      {"mistral", "[THINK]a[/THINK]b", {"a", "b"}},
      {"gemma4", "<|channel>thought\na<channel|>b", {"a", "b"}},
      {"cohere_command4",
       "<|START_THINKING|>a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|>",
       {"a", "b"}},
      {"step3", "a</think>b", {"a", "b"}},
      {"interns1", "<think>a</think>b", {"a", "b"}},
      {"nemotron_3", "<think></think>b", {"", "b"}},
      {"qwen3", "", {"", ""}},
      {"qwen3", " \n ", {"", " \n "}},
  };
  for (const auto& each : kCases) {
    EXPECT_EQ(split_all_ways(each.format, each.text), each.parts)
        << each.format << ": " << each.text;
  }
}

TEST(Reasoning, ThePromptMayHaveOpenedOrClosedIt) {
  EXPECT_EQ(split_all_ways("qwen3", "a</think>b", ReasoningStart::kOpen), (Parts{"a", "b"}));
  EXPECT_EQ(split_all_ways("qwen3", "<think>a</think>b", ReasoningStart::kOpen), (Parts{"a", "b"}));
  EXPECT_EQ(split_all_ways("deepseek-r1", "<b>", ReasoningStart::kClosed), (Parts{"", "<b>"}));
  EXPECT_EQ(split_all_ways("qwen3", "<think>a</think>", ReasoningStart::kClosed),
            (Parts{"", "<think>a</think>"}));
  EXPECT_EQ(reasoning_start("qwen3", "<|im_start|>assistant\n<think>\n"), ReasoningStart::kOpen);
  EXPECT_EQ(reasoning_start("qwen3", "assistant\n<think>\n\n</think>\n\n"),
            ReasoningStart::kClosed);
  EXPECT_EQ(reasoning_start("qwen3", "assistant\n"), ReasoningStart::kUnstated);
  EXPECT_EQ(reasoning_start("qwen3", ""), ReasoningStart::kUnstated);
  EXPECT_EQ(reasoning_start("gpt-oss", "<|start|>assistant"), ReasoningStart::kUnstated);
  EXPECT_EQ(reasoning_start("nosuch", "<think>"), ReasoningStart::kUnstated);
}

TEST(Reasoning, ChannelsOfGptOss) {
  EXPECT_EQ(split_all_ways("gpt-oss",
                           "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
                           "<|channel|>final<|message|>Hello<|return|>"),
            (Parts{"hm", "Hello"}));
  EXPECT_EQ(split_all_ways("gpt-oss", "<|channel|>analysis<|message|>hm"), (Parts{"hm", ""}));
  EXPECT_EQ(split_all_ways("gpt-oss", "Just text < here"), (Parts{"", "Just text < here"}));
  EXPECT_EQ(split_all_ways("gpt-oss", "<|channel|>fin"), (Parts{"", "<|channel|>fin"}));
  const std::string call =
      "<|start|>assistant<|channel|>commentary to=functions.f "
      "<|constrain|>json<|message|>{\"a\":1}<|call|>";
  EXPECT_EQ(split_all_ways("gpt-oss", "<|channel|>analysis<|message|>hm<|end|>" + call),
            (Parts{"hm", call}));
  EXPECT_EQ(split_all_ways("gpt-oss", "<|channel|>commentary<|message|>I will.<|end|>" + call),
            (Parts{"", "I will." + call}));
}

TEST(Reasoning, TellsWhereItIs) {
  const auto parser = make_reasoning_parser("qwen3");
  std::string reasoning, content;
  EXPECT_FALSE(parser->in_reasoning());
  parser->push("<think>a", &reasoning, &content);
  EXPECT_TRUE(parser->in_reasoning());
  parser->push("</think>", &reasoning, &content);
  EXPECT_FALSE(parser->in_reasoning());
  EXPECT_TRUE(make_reasoning_parser("deepseek-r1")->in_reasoning());
}

TEST(Reasoning, RandomTextOfMarksLosesNothingButMarks) {
  const std::vector<std::string> pieces = {"<think>",
                                           "</think>",
                                           "<think",
                                           "</",
                                           "a",
                                           " ",
                                           "\n",
                                           "<tool_call>",
                                           "◁think▷",
                                           "◁/think▷",
                                           "[THINK]",
                                           "[/THINK]",
                                           "<|channel|>",
                                           "analysis",
                                           "final",
                                           "<|message|>",
                                           "<|end|>",
                                           "<|start|>assistant",
                                           "to=x",
                                           "<|START_THINKING|>",
                                           "<|END_THINKING|>",
                                           "<|START_TEXT|>",
                                           "bc",
                                           "<"};
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    const size_t count = 1 + random() % 10;
    for (size_t i = 0; i < count; ++i) text += pieces[random() % pieces.size()];
    for (const std::string_view format : reasoning_formats()) {
      for (const ReasoningStart start :
           {ReasoningStart::kUnstated, ReasoningStart::kOpen, ReasoningStart::kClosed}) {
        const Parts parts = split_all_ways(format, text, start);
        EXPECT_LE(parts.reasoning.size() + parts.content.size(), text.size() + 7);
        const auto letters = [](std::string_view part) {
          return std::count(part.begin(), part.end(), 'b');
        };
        EXPECT_EQ(letters(parts.reasoning) + letters(parts.content), letters(text)) << text;
      }
    }
  }
}

TEST(Reasoning, RegistryKnowsItsNames) {
  EXPECT_EQ(make_reasoning_parser("nosuch"), nullptr);
  EXPECT_EQ(make_reasoning_parser(""), nullptr);
  const auto names = reasoning_formats();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string_view name : names) EXPECT_NE(make_reasoning_parser(name), nullptr) << name;
  EXPECT_EQ(reasoning_end_mark("qwen3"), "</think>");
  EXPECT_EQ(reasoning_end_mark("gpt-oss"), "");
  EXPECT_EQ(reasoning_end_mark("nosuch"), "");
}

}  // namespace
}  // namespace quern::text

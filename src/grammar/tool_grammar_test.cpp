// Forced calls: the grammar of each format writes what the format's own parser reads.
#include "grammar/tool_grammar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/errors/grammar.h"
#include "grammar/test_grammars.h"
#include "quern/output_parsers.h"

namespace quern::grammar {
namespace {

constexpr const char* kTools = R"([{"type":"function","function":{"name":"rain","strict":true,
  "parameters":{"type":"object","properties":{"city":{"type":"string","maxLength":8},"days":
  {"type":"integer","minimum":1,"maximum":9}},"required":["city","days"]}}},
  {"type":"function","function":{"name":"wind"}}])";

std::shared_ptr<const Compiled> compiled_calls(const ToolCalls& calls) {
  return std::make_shared<const Compiled>(test_vocabulary(), Notation::kEbnf,
                                          tool_grammar(calls, {}));
}

struct Read {
  std::string text;
  std::vector<std::string> names, arguments;
  bool complete = true;
};

Read read(std::string_view format, const std::string& text) {
  const auto parser = make_tool_call_parser(format, kTools);
  std::vector<ToolCallEvent> events;
  parser->push(text, &events);
  parser->finish(&events);
  Read read;
  for (const ToolCallEvent& event : events) {
    switch (event.kind) {
      case ToolCallEvent::Kind::kText: read.text += event.text; break;
      case ToolCallEvent::Kind::kBegin:
        read.names.push_back(event.name);
        read.arguments.emplace_back();
        break;
      case ToolCallEvent::Kind::kArguments: read.arguments.back() += event.text; break;
      case ToolCallEvent::Kind::kEnd: read.complete = read.complete && event.complete; break;
    }
  }
  return read;
}

TEST(ToolGrammar, ForcedCallsAreReadByTheFormatsParser) {
  for (const char* format :
       {"qwen25", "hermes", "llama3", "mistral", "deepseekv3", "deepseekv31", "kimi_k2"}) {
    for (const char* name : {"", "rain"}) {
      const auto grammar =
          compiled_calls({.format = format, .tools = kTools, .name = name, .parallel = false});
      int ended = 0;
      for (unsigned seed = 0; seed < 20; ++seed) {
        const Drawn drawn = draw(grammar, seed, 300);
        ASSERT_FALSE(drawn.stuck) << format << drawn.text;
        if (!drawn.ended) continue;
        ++ended;
        const Read calls = read(format, drawn.text);
        ASSERT_EQ(calls.names.size(), 1U) << format << "\n" << drawn.text;
        EXPECT_TRUE(calls.complete) << drawn.text;
        EXPECT_EQ(calls.text, "") << drawn.text;
        const Json arguments = Json::parse(calls.arguments[0]);
        EXPECT_TRUE(calls.names[0] != "rain" || arguments["days"].get<int>() >= 1) << drawn.text;
        EXPECT_TRUE(*name == 0 || calls.names[0] == name) << drawn.text;
      }
      EXPECT_GT(ended, 5) << format;
    }
  }
}

TEST(ToolGrammar, TextMayStandBeforeStrictCalls) {
  const auto grammar = compiled_calls({.format = "qwen25", .tools = kTools, .required = false});
  EXPECT_TRUE(takes(grammar, "It rains. <tool is no mark, <<tool_cal neither."));
  EXPECT_TRUE(takes(grammar,
                    "So <<tool_call>\n{\"name\": \"rain\", \"arguments\": {\"city\": \"x\", "
                    "\"days\": 3}}\n</tool_call> and more"));
  EXPECT_FALSE(takes(grammar,
                     "So <tool_call>\n{\"name\": \"rain\", \"arguments\": {\"city\": \"x\"}}"
                     "\n</tool_call>"));
  EXPECT_FALSE(takes(grammar, "So <tool_call>\n{\"name\": \"snow\""));
  const auto one =
      compiled_calls({.format = "qwen25", .tools = kTools, .required = false, .parallel = false});
  EXPECT_FALSE(takes(one, "<tool_call>\n{\"name\": \"wind\", \"arguments\": {}}\n</tool_call>x"));
  const auto kimi = compiled_calls({.format = "kimi_k2", .tools = kTools, .required = false});
  EXPECT_TRUE(takes(kimi,
                    "x<|tool_calls_section_begin|><|tool_call_begin|>functions.wind:0"
                    "<|tool_call_argument_begin|>{}<|tool_call_end|>"
                    "<|tool_calls_section_end|>"));
}

TEST(ToolGrammar, OtherFormatsAreRefused) {
  for (const char* format : {"pythonic", "qwen3_coder", ""}) {
    try {
      tool_grammar({.format = format, .tools = kTools}, {});
      FAIL() << format;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kToolFormatNotForced);
    }
  }
  EXPECT_THROW(tool_grammar({.format = "llama3", .tools = kTools, .required = false}, {}), Error);
  // A strict schema that no grammar holds to; one that is not strict becomes any object.
  const std::string strict = R"([{"function":{"name":"f","strict":true,"parameters":{"not":{}}}}])";
  EXPECT_THROW(tool_grammar({.format = "qwen25", .tools = strict}, {}), Error);
  const std::string loose = R"([{"function":{"name":"f","parameters":{"not":{}}}}])";
  EXPECT_TRUE(takes(compiled_calls({.format = "qwen25", .tools = loose}),
                    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>"));
}

}  // namespace
}  // namespace quern::grammar

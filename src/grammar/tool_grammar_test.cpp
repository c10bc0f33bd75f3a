// Forced calls: the grammar of each format writes what the format's own parser reads.
#include "grammar/tool_grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

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

Read read(std::string_view format, const std::string& text, const char* tools = kTools) {
  const auto parser = make_tool_call_parser(format, tools);
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

std::vector<std::string> marks(std::string_view format) {
  std::vector<std::string> marks = {"1", "null", "t", " ", "<"};
  for (const std::string_view mark : make_tool_call_parser(format, kTools)->marks()) {
    if (!mark.empty()) marks.insert(marks.end(), {std::string(mark), "\n" + std::string(mark)});
  }
  return marks;
}

int characters(const Json& text) {
  int count = 0;
  for (const char byte : text.get<std::string>()) count += (byte & 0xC0) != 0x80;
  return count;
}

// All that are read, but for gemma4.
std::vector<std::string> forced_formats() {
  std::vector<std::string> formats;
  for (const std::string_view format : tool_call_formats()) {
    if (format != "gemma4") formats.emplace_back(format);
  }
  return formats;
}

TEST(ToolGrammar, ForcedCallsAreReadByTheFormatsParser) {
  for (const std::string& format : forced_formats()) {
    for (const char* name : {"", "rain"}) {
      const auto grammar =
          compiled_calls({.format = format, .tools = kTools, .name = name, .parallel = false});
      int ended = 0;
      for (unsigned seed = 0; seed < 20; ++seed) {
        const Drawn drawn = draw(grammar, seed, 400, marks(format));
        ASSERT_FALSE(drawn.stuck) << format << drawn.text;
        if (!drawn.ended) continue;
        ++ended;
        const Read calls = read(format, drawn.text);
        ASSERT_EQ(calls.names.size(), 1U) << format << "\n" << drawn.text;
        EXPECT_TRUE(calls.complete) << drawn.text;
        EXPECT_TRUE(format == "gpt-oss" || calls.text.empty()) << drawn.text;
        const Json arguments = Json::parse(calls.arguments[0]);
        EXPECT_TRUE(calls.names[0] != "rain" || arguments["days"].get<int>() >= 1) << drawn.text;
        EXPECT_TRUE(*name == 0 || calls.names[0] == name) << drawn.text;
      }
      EXPECT_GT(ended, 5) << format;
    }
  }
}

// What stands between tags, or as Python, is read as the schema says, whatever its text looks like.
constexpr const char* kPlan = R"([{"type":"function","function":{"name":"plan","strict":true,
  "parameters":{"type":"object","properties":{
  "note":{"type":"string"},
  "city":{"type":"string","minLength":2,"maxLength":4},
  "code":{"type":"string","pattern":"[A-C<\n\"]{2}"},
  "unit":{"enum":["c","</parameter></arg_value>","f\n",7]},
  "maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},
  "either":{"type":["string","integer","boolean"],"minimum":5},
  "short":{"anyOf":[{"type":"string","maxLength":3},{"type":"array","items":{"$ref":"#/$defs/t"}}]},
  "deep":{"type":"object","properties":{"a":{"type":"string","maxLength":6},"b<c":{"const":"<x>"}},
  "required":["a","b<c"]}},
  "required":["note","city","code","unit","maybe","either","short","deep"],
  "$defs":{"t":{"type":["null","boolean"]}}}}}])";

TEST(ToolGrammar, ValuesAreReadAsTheirSchemaSays) {
  for (const std::string& format : forced_formats()) {
    const auto grammar = std::make_shared<const Compiled>(
        test_vocabulary(), Notation::kEbnf,
        tool_grammar({.format = format, .tools = kPlan, .parallel = false}, {}));
    int ended = 0;
    for (unsigned seed = 0; seed < 80; ++seed) {
      const Drawn drawn = draw(grammar, seed, 1500, marks(format));
      ASSERT_FALSE(drawn.stuck) << format << drawn.text;
      if (!drawn.ended) continue;
      ++ended;
      const Read calls = read(format, drawn.text, kPlan);
      ASSERT_EQ(calls.names.size(), 1U) << format << "\n" << drawn.text;
      const Json plan = Json::parse(calls.arguments[0]);
      SCOPED_TRACE(format + "\n" + drawn.text + "\n" + calls.arguments[0]);
      ASSERT_EQ(plan.size(), 8U);
      EXPECT_TRUE(plan["note"].is_string());
      const int city = characters(plan["city"]);
      EXPECT_TRUE(city >= 2 && city <= 4);
      const std::string code = plan["code"];
      EXPECT_EQ(code.find_first_not_of("ABC<\n\""), code.npos);
      EXPECT_EQ(code.size(), 2U);
      const Json units = {"c", "</parameter></arg_value>", "f\n", 7};
      EXPECT_NE(std::find(units.begin(), units.end(), plan["unit"]), units.end());
      EXPECT_TRUE(plan["maybe"].is_string() || plan["maybe"].is_null());
      const Json& either = plan["either"];
      EXPECT_TRUE(either.is_string() || either.is_boolean() || either.get<double>() >= 5);
      const Json& brief = plan["short"];
      if (brief.is_string()) {
        EXPECT_LE(characters(brief), 3);
      } else {
        EXPECT_TRUE(brief.is_array());
        for (const Json& one : brief) EXPECT_TRUE(one.is_null() || one.is_boolean());
      }
      EXPECT_LE(characters(plan["deep"]["a"]), 6);
      EXPECT_EQ(plan["deep"]["b<c"], "<x>");
    }
    EXPECT_GT(ended, 5) << format;
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

TEST(ToolGrammar, TextMayStandBesideStrictCallsInEveryFormat) {
  struct Case {
    const char *format, *call;  // that breaks the schema of `rain`
  };
  const Case cases[] = {
      {"glm45", "<tool_call>rain\n<arg_key>city</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"},
      {"qwen3_coder", "<function=rain>\n</function>"},
      {"minimax-m2", "<invoke name=\"rain\"></invoke>"},
      {"minimax-m2", "<minimax:tool_call>\n<invoke name=\"rain\">\n</invoke></minimax:tool_call>"},
      {"deepseekv31", "<｜tool▁call▁begin｜>rain<｜tool▁sep｜>{}<｜tool▁call▁end｜>"},
      {"deepseekv32", "<｜DSML｜invoke name=\"rain\"></｜DSML｜invoke>"},
      {"pythonic", "[rain(city='x')]"},
      {"pythonic", "[ \n[rain()]"},
      {"pythonic", "[wind(), rain()]"},
      {"lfm2", "<|tool_call_start|>[rain()]<|tool_call_end|>"},
      {"llama3", "<|python_tag|>{\"name\": \"rain\", \"parameters\": {}}"},
      {"gpt-oss", "<|channel|>commentary to=functions.rain <|constrain|>json<|message|>{}"},
  };
  for (const Case& each : cases) {
    const auto grammar =
        compiled_calls({.format = each.format, .tools = kTools, .required = false});
    SCOPED_TRACE(each.call);
    ASSERT_EQ(read(each.format, each.call).names.size() > 0, true);
    const std::string before = std::string_view(each.format) == "gpt-oss" ? "" : "So: ";
    EXPECT_FALSE(takes(grammar, before + each.call));
  }
  const auto pythonic = compiled_calls({.format = "pythonic", .tools = kTools, .required = false});
  EXPECT_TRUE(
      takes(pythonic, "See [1], [rainy(x)], a[i](b) and [ wind()]. [rain(city=\"a\", days=3)]"));
  const auto llama = compiled_calls({.format = "llama3", .tools = kTools, .required = false});
  EXPECT_TRUE(takes(llama, "A {brace}."));
  EXPECT_FALSE(takes(llama, "{\"name\": \"rain\", \"parameters\": {}}"));
  EXPECT_TRUE(takes(llama, "{\"name\": \"wind\", \"parameters\": {}}"));
  const auto oss = compiled_calls({.format = "gpt-oss", .tools = kTools, .required = false});
  EXPECT_TRUE(takes(oss,
                    "<|channel|>analysis<|message|>Rain?<|end|><|start|>assistant<|channel|>final"
                    "<|message|>No."));
  EXPECT_FALSE(takes(oss, "No."));
}

TEST(ToolGrammar, AFormStandsInTheLastMessageOfGptOss) {
  EXPECT_EQ(before_answer("qwen3"), "");
  const std::string tag = R"({"format":{"type":"const_string","value":"yes"}})";
  for (const Grammar& form :
       {Grammar{Grammar::Kind::kRegex, "yes"}, Grammar{Grammar::Kind::kStructuralTag, tag}}) {
    const Source source = read_grammar(form, {});
    const auto grammar = std::make_shared<const Compiled>(test_vocabulary(), source.notation,
                                                          source.text, before_answer("gpt-oss"));
    EXPECT_TRUE(takes(grammar, "<|channel|>final<|message|>yes"));
    EXPECT_TRUE(takes(grammar,
                      "<|channel|>analysis<|message|>Or no? <<|end|><|start|>assistant<|channel|>"
                      "final<|message|>yes"));
    EXPECT_FALSE(takes(grammar, "yes"));
    EXPECT_FALSE(takes(grammar, "<|channel|>analysis<|message|>yes"));
  }
}

TEST(ToolGrammar, WhatAFormatCannotWriteIsRefusedOrLoosened) {
  for (const char* parameters :
       {R"({"properties":{"a b":{"type":"string"}}})", R"({"anyOf":[{"properties":{"a":{}}}]})",
        R"({"properties":{"a":{"type":["string","integer"],"pattern":"[0-9]+"}},"required":["a"]})",
        R"({"properties":{"a":{"const":"x</arg_value>"}},"required":["a"]})",
        R"({"type":"string"})", R"({"minProperties":2})"}) {
    const auto tools = [&](const char* strict) {
      return fmt::format(R"([{{"function":{{"name":"f","strict":{},"parameters":{}}}}}])", strict,
                         parameters);
    };
    const std::string strict = tools("true"), loose = tools("false");
    EXPECT_THROW(tool_grammar({.format = "glm45", .tools = strict}, {}), Error) << parameters;
    EXPECT_TRUE(
        takes(compiled_calls({.format = "glm45", .tools = loose}),
              "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"));
  }
  const char* name = R"([{"function":{"name":"two words"}}])";
  EXPECT_THROW(tool_grammar({.format = "glm45", .tools = name}, {}), Error);
  EXPECT_THROW(tool_grammar({.format = "pythonic", .tools = name}, {}), Error);
}

TEST(ToolGrammar, OtherFormatsAreRefused) {
  for (const char* format : {"gemma4", ""}) {
    try {
      tool_grammar({.format = format, .tools = kTools}, {});
      FAIL() << format;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kToolFormatNotForced);
    }
  }
  // A strict schema that no grammar holds to; one that is not strict becomes any object.
  const std::string strict = R"([{"function":{"name":"f","strict":true,"parameters":{"not":{}}}}])";
  EXPECT_THROW(tool_grammar({.format = "qwen25", .tools = strict}, {}), Error);
  const std::string loose = R"([{"function":{"name":"f","parameters":{"not":{}}}}])";
  EXPECT_TRUE(takes(compiled_calls({.format = "qwen25", .tools = loose}),
                    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1}}\n</tool_call>"));
}

}  // namespace
}  // namespace quern::grammar

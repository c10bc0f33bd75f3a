#include "server/output_api.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "server/json_body.h"

namespace quern::server {
namespace {

using Parsed = nlohmann::json;

constexpr const char* kTools = R"("tools":[{"type":"function","function":{"name":"now"}},
  {"type":"function","function":{"name":"find","parameters":{"properties":{"q":{"type":"string"}}}}}])";

EngineInfo info() {
  EngineInfo info;
  info.tool_call_parser = "qwen25";
  info.reasoning_parser = "qwen3";
  return info;
}

Parsed calls(const std::string& members, const EngineInfo& of = info()) {
  return Parsed::parse(parse_function_call("{" + members + "}", of).body);
}
Parsed reasoning(const std::string& members, const EngineInfo& of = info()) {
  return Parsed::parse(separate_reasoning("{" + members + "}", of).body);
}

// The field that a refusal names; "" where nothing was refused.
template <typename Ask>
std::string refused(Ask ask) {
  try {
    ask();
  } catch (const Error& error) {
    EXPECT_EQ(error.entry().http_status, 400);
    return std::string(error.field("param"));
  }
  return "";
}

TEST(ParseFunctionCall, FindsCalls) {
  EXPECT_EQ(
      calls(
          std::string(kTools) +
          R"(,"tool_call_parser":"qwen25","text":"a\n<tool_call>{\"name\":\"find\",\"arguments\":{\"q\":\"ü\"}}</tool_call><tool_call>{\"name\":\"now\"}</tool_call>b")"),
      Parsed::parse(R"({"normal_text":"ab","calls":[
              {"tool_index":1,"name":"find","parameters":"{\"q\":\"ü\"}"},
              {"tool_index":0,"name":"now","parameters":"{}"}]})"));
  EXPECT_EQ(
      calls(std::string(kTools) +
            R"(,"tool_call_parser":"pythonic","text":"[find(q='x')]")")["calls"][0]["parameters"],
      R"({"q": "x"})");
}

TEST(ParseFunctionCall, TheServersOwnParserIsTheDefault) {
  const std::string text = R"(,"text":"<tool_call>{\"name\":\"now\"}</tool_call>")";
  EXPECT_EQ(calls(kTools + text)["calls"].size(), 1u);
  EXPECT_EQ(refused([&] { calls(kTools + text, EngineInfo()); }), "tool_call_parser");
}

TEST(ParseFunctionCall, WithoutToolsEverythingIsText) {
  EXPECT_EQ(
      calls(R"("text":"<tool_call>{\"name\":\"now\"}</tool_call>")"),
      Parsed::parse(R"({"normal_text":"<tool_call>{\"name\":\"now\"}</tool_call>","calls":[]})"));
}

TEST(ParseFunctionCall, NamesWhatIsWrong) {
  const struct {
    const char *members, *param;
  } kBad[] = {
      {R"("tools":[])", "text"},
      {R"("text":5)", "text"},
      {R"("text":"a","tool_call_parser":"nosuch")", "tool_call_parser"},
      {R"("text":"a","tool_call_parser":7)", "tool_call_parser"},
      {R"("text":"a","tools":{})", "tools"},
      {R"("text":"a","tools":[{}])", "tools[0].function"},
      {R"("text":"a","tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])",
       "tools[1].function.name"},
  };
  for (const auto& bad : kBad) {
    EXPECT_EQ(refused([&] { calls(bad.members); }), bad.param) << bad.members;
  }
}

TEST(ParseFunctionCall, ManyCallsOfManyToolsTakeBoundedTime) {
  Parsed tools = Parsed::array();
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    const std::string name = "f" + std::to_string(i);
    tools.push_back({{"type", "function"}, {"function", {{"name", name}}}});
    text += "<tool_call>{\"name\":\"" + name + "\"}</tool_call>";
  }
  const Parsed body = {{"tools", tools}, {"text", text}};
  const Parsed found = Parsed::parse(parse_function_call(body.dump(), info()).body);
  ASSERT_EQ(found["calls"].size(), 20000u);
  EXPECT_EQ(found["calls"][19999]["tool_index"], 19999);
}

TEST(SeparateReasoning, TakesATextApart) {
  EXPECT_EQ(reasoning(R"("text":"<think>a</think>b","reasoning_parser":"qwen3")"),
            Parsed::parse(R"({"reasoning_text":"a","text":"b"})"));
  EXPECT_EQ(
      reasoning(R"("text":"a</think>b","reasoning_parser":"deepseek-r1","return_blocks":true)"),
      Parsed::parse(R"({"reasoning_text":"a","text":"b","blocks":[
              {"type":"reasoning","text":"a"},{"type":"text","text":"b"}]})"));
  EXPECT_EQ(
      reasoning(R"("text":"b","return_blocks":true)"),
      Parsed::parse(R"({"reasoning_text":"","text":"b","blocks":[{"type":"text","text":"b"}]})"));
}

TEST(SeparateReasoning, NamesWhatIsWrong) {
  EXPECT_EQ(refused([] { reasoning(R"("reasoning_parser":"qwen3")"); }), "text");
  EXPECT_EQ(refused([] { reasoning(R"("text":"a","reasoning_parser":"nosuch")"); }),
            "reasoning_parser");
  EXPECT_EQ(refused([] { reasoning(R"("text":"a","return_blocks":1)"); }), "return_blocks");
  EXPECT_EQ(refused([] { reasoning(R"("text":"a")", EngineInfo()); }), "reasoning_parser");
}

}  // namespace
}  // namespace quern::server

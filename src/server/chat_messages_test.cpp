#include "server/chat_messages.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace quern::server {
namespace {

// What a body's conversation is refused with: the field, or "" where it is taken.
std::string field_at_fault(const std::string& members) {
  const Json body = parse_object("{" + members + "}");
  Request request;
  try {
    read_chat(Fields(body), &request);
  } catch (const Error& error) {
    EXPECT_EQ(error.entry().http_status, 400) << members;
    return std::string(error.field("param"));
  }
  return "";
}

std::string with_tool(const std::string& tool) {
  return R"("messages":[{"role":"user","content":"a"}],"tools":[)" + tool + "]";
}

std::string with_call(const std::string& call) {
  return R"("messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[)" + call +
         "]}]";
}

TEST(ChatMessages, TakesToolsOfEveryGoodForm) {
  for (const char* tool : {
           R"({"type":"function","function":{"name":"f"}})",
           R"({"function":{"name":"f"}})",
           R"({"type":null,"function":{"name":"f","description":null,"parameters":null}})",
           R"({"type":"function","function":{"name":"f","description":"d","strict":true,
               "parameters":{"type":"object","properties":{}},"more":[1]},"more":2})",
       }) {
    EXPECT_EQ(field_at_fault(with_tool(tool)), "") << tool;
  }
}

TEST(ChatMessages, NamesOfFunctionsAreNotTooLong) {
  const auto tool = [](size_t length) {
    return with_tool(R"({"function":{"name":")" + std::string(length, 'f') + "\"}}");
  };
  EXPECT_EQ(field_at_fault(tool(256)), "");
  EXPECT_EQ(field_at_fault(tool(257)), "tools[0].function.name");
}

TEST(ChatMessages, NamesWhatIsBadInATool) {
  const struct {
    const char *tool, *param;
  } kBad[] = {
      {"{}", "tools[0].function"},
      {"null", "tools[0]"},
      {R"("f")", "tools[0]"},
      {R"({"type":"function"})", "tools[0].function"},
      {R"({"type":"function","function":null})", "tools[0].function"},
      {R"({"type":"function","function":"f"})", "tools[0].function"},
      {R"({"type":"function","function":[]})", "tools[0].function"},
      {R"({"type":"function","function":{}})", "tools[0].function.name"},
      {R"({"type":"function","function":{"name":null}})", "tools[0].function.name"},
      {R"({"type":"function","function":{"name":""}})", "tools[0].function.name"},
      {R"({"type":"function","function":{"name":5}})", "tools[0].function.name"},
      {R"({"type":"function","function":{"name":"f","description":[]}})",
       "tools[0].function.description"},
      {R"({"type":"function","function":{"name":"f","strict":"yes"}})", "tools[0].function.strict"},
      {R"({"type":"function","function":{"name":"f","parameters":"{}"}})",
       "tools[0].function.parameters"},
      {R"({"type":"function","function":{"name":"f","parameters":[]}})",
       "tools[0].function.parameters"},
      {R"({"function":{"name":"f"}},{"function":{"name":"f"}})", "tools[1].function.name"},
      {R"({"function":{"name":"f","parameters":{"type":"strin"}}})",
       "tools[0].function.parameters.type"},
      {R"({"function":{"name":"f","parameters":{"type":5}}})", "tools[0].function.parameters.type"},
      {R"({"function":{"name":"f","parameters":{"type":["string",5]}}})",
       "tools[0].function.parameters.type"},
      {R"({"function":{"name":"f","parameters":{"properties":[]}}})",
       "tools[0].function.parameters.properties"},
      {R"({"function":{"name":"f","parameters":{"properties":{"a":"string"}}}})",
       "tools[0].function.parameters.properties.a"},
      {R"({"function":{"name":"f","parameters":{"properties":{"a":{"items":{"type":"int"}}}}}})",
       "tools[0].function.parameters.properties.a.items.type"},
      {R"({"function":{"name":"f","parameters":{"anyOf":{}}}})",
       "tools[0].function.parameters.anyOf"},
      {R"({"function":{"name":"f","parameters":{"required":"a"}}})",
       "tools[0].function.parameters.required"},
      {R"({"type":"web_search"})", "tools[0].type"},
      {R"({"type":5,"function":{"name":"f"}})", "tools[0].type"},
      {R"({"name":"f","parameters":{}})", "tools[0].function"},
      {R"({"function":{"name":"f"}},{})", "tools[1].function"},
  };
  for (const auto& bad : kBad) {
    EXPECT_EQ(field_at_fault(with_tool(bad.tool)), bad.param) << bad.tool;
    // Tools that the model is not to see are held to the same.
    EXPECT_EQ(field_at_fault(with_tool(bad.tool) + R"(,"tool_choice":"none")"), bad.param);
  }
}

TEST(ChatMessages, ArgumentsOfACallAreAJsonObject) {
  for (const char* arguments :
       {R"("{}")", R"(" {\"a\": [1]}\n")", R"("")", R"(" ")", R"("null")", R"({"a":1})", "null"}) {
    const std::string call =
        R"({"id":"c","function":{"name":"f","arguments":)" + std::string(arguments) + "}}";
    EXPECT_EQ(field_at_fault(with_call(call)), "") << arguments;
  }
  EXPECT_EQ(field_at_fault(with_call(R"({"function":{"name":"f"}})")), "");
  const std::string deep = "\"" + std::string(100000, '[') + "\"";
  const std::string open = R"("{\"a\":)" + std::string(100000, '[') + "\"";
  const std::string large = "\"" + std::string(1 << 20, 'x') + "\"";
  for (const std::string& arguments :
       {std::string(R"("{")"), std::string(R"("[1]")"), std::string(R"("x")"), std::string("[1]"),
        std::string("5"), std::string(R"("{}{}")"), std::string(R"("{'a':1}")"),
        std::string("true"), deep, open, large}) {
    const std::string call = R"({"function":{"name":"f","arguments":)" + arguments + "}}";
    EXPECT_EQ(field_at_fault(with_call(call)), "messages[1].tool_calls[0].function.arguments")
        << arguments.substr(0, 20);
  }
}

// What has no arguments becomes an object, for templates that look into it.
TEST(ChatMessages, ACallWithoutArgumentsGetsNone) {
  for (const char* arguments :
       {R"(,"arguments":"")", R"(,"arguments":"null")", R"(,"arguments":null)", ""}) {
    const Json body = parse_object(
        "{" + with_call(R"({"function":{"name":"f")" + std::string(arguments) + "}}") + "}");
    Request request;
    read_chat(Fields(body), &request);
    EXPECT_EQ(Json::parse(request.messages->at(1).fields)["tool_calls"],
              Json::parse(R"([{"function":{"name":"f","arguments":{}}}])"))
        << arguments;
  }
}

TEST(ChatMessages, NamesWhatIsBadInACall) {
  const struct {
    const char *call, *param;
  } kBad[] = {
      {"{}", "messages[1].tool_calls[0].function"},
      {"5", "messages[1].tool_calls[0]"},
      {R"({"function":"f"})", "messages[1].tool_calls[0].function"},
      {R"({"function":{"arguments":"{}"}})", "messages[1].tool_calls[0].function.name"},
      {R"({"function":{"name":["f"]}})", "messages[1].tool_calls[0].function.name"},
      {R"({"type":"custom","custom":{}})", "messages[1].tool_calls[0].type"},
      {R"({"id":7,"function":{"name":"f"}})", "messages[1].tool_calls[0].id"},
  };
  for (const auto& bad : kBad) {
    EXPECT_EQ(field_at_fault(with_call(bad.call)), bad.param) << bad.call;
  }
  const std::string turn = R"("messages":[{"role":"tool","content":"r",)";
  EXPECT_EQ(field_at_fault(turn + R"("tool_call_id":5}])"), "messages[0].tool_call_id");
  EXPECT_EQ(field_at_fault(turn + R"("name":{}}])"), "messages[0].name");
}

}  // namespace
}  // namespace quern::server

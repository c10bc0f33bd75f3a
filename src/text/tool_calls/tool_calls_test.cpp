// Every format: what its models write, what they get wrong, and that no way to cut the text
// matters.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/test_support.h"
#include "text/tool_calls/test_calls.h"

namespace quern::text {
namespace {

using test::Call;
using test::parse_all_ways;
using test::Parsed;

constexpr const char* kTools = R"([
  {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
    "city":{"type":"string"},"days":{"type":"integer"},"metric":{"type":"boolean"},
    "where":{"type":"object"},"tags":{"type":"array"},"note":{"type":["string","null"]}}}}},
  {"type":"function","function":{"name":"now"}},
  {"type":"function","function":{"name":"geo.find-place","parameters":{}}}])";

Call whole(std::string name, std::string arguments, std::string id = "") {
  return {std::move(name), std::move(arguments), std::move(id), true};
}
Call cut(std::string name, std::string arguments, std::string id = "") {
  return {std::move(name), std::move(arguments), std::move(id), false};
}

struct Case {
  const char *format, *text;
  Parsed expected;
};

void check(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    EXPECT_EQ(parse_all_ways(each.format, kTools, each.text), each.expected)
        << each.format << ": " << each.text;
  }
}

TEST(ToolCalls, JsonBetweenMarks) {
  check({
      {"qwen25",
       "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"Paris\"}}\n</tool_call>",
       {"", {whole("get_weather", "{\"city\": \"Paris\"}")}}},
      {"hermes",
       "Let me see.\n<tool_call>\n{\"name\":\"now\",\"arguments\":{}}\n</tool_call>\n<tool_call>\n"
       "{\"arguments\": {\"days\": [1, {\"a\": \"}\"}]}, \"name\": "
       "\"get_weather\"}\n</tool_call>\nDone.",
       {"Let me see.\nDone.",
        {whole("now", "{}"), whole("get_weather", "{\"days\": [1, {\"a\": \"}\"}]}")}}},
      // Several in one block, with and without brackets; no arguments; arguments as a string.
      {"qwen",
       "<tool_call>{\"name\":\"now\"}\n{\"name\":\"now\",\"arguments\":null}</tool_call>",
       {"", {whole("now", "{}"), whole("now", "{}")}}},
      {"qwen25",
       "<tool_call>[{\"name\":\"now\"}, {\"name\":\"now\",\"parameters\":\"{\\\"a\\\": "
       "\\\"\\u00e9\\\"}\"}]"
       "</tool_call>",
       {"", {whole("now", "{}"), whole("now", "{\"a\": \"é\"}")}}},
      // Such a string may hold no JSON, or nothing.
      {"qwen25",
       "<tool_call>{\"name\":\"now\",\"arguments\":\"s{\"}</"
       "tool_call><tool_call>{\"arguments\":\"{\",\"name\":"
       "\"now\"}</tool_call><tool_call>{\"name\":\"now\",\"arguments\":\" \"}</tool_call>",
       {"", {whole("now", "\"s{\""), whole("now", "\"{\""), whole("now", "{}")}}},
      {"qwen25",
       "<tool_call>{\"type\":\"function\",\"function\":{\"name\":\"now\",\"arguments\":{\"x\":1}}}<"
       "/tool_call>",
       {"", {whole("now", "{\"x\":1}")}}},
      {"qwen25",
       "<tool_call>{\"name\":\"now\",\"id\":[1,\"}\"],\"arguments\":{\"t\":\"a\nb\"},\"x\":2}</"
       "tool_call>",
       {"", {whole("now", "{\"t\":\"a\\nb\"}")}}},
      {"qwen25",
       "<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"東京 😀 "
       "\\\"q\\\"\"}}</tool_call>",
       {"", {whole("get_weather", "{\"city\":\"東京 😀 \\\"q\\\"\"}")}}},
      // A brace too few is forgiven.
      {"qwen25",
       "<tool_call>{\"name\":\"now\",\"arguments\":{}\n</tool_call>x",
       {"x", {whole("now", "{}")}}},
      {"cohere_command4",
       "<|START_ACTION|>[\n  {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
       "\"parameters\": "
       "{\"city\": \"Rome\"}},\n  {\"tool_call_id\": \"1\", \"tool_name\": \"now\", "
       "\"parameters\": {}}\n]<|END_ACTION|>",
       {"", {whole("get_weather", "{\"city\": \"Rome\"}"), whole("now", "{}")}}},
      {"interns1",
       "Sure<|action_start|> <|plugin|>\n{\"name\":\"now\",\"parameters\":{}}<|action_end|>\n",
       {"Sure", {whole("now", "{}")}}},
      {"apertus2509",
       "<|tools_prefix|>[{\"get_weather\": {\"city\": \"Bern\"}}, {\"now\": {}}]<|tools_suffix|>",
       {"", {whole("get_weather", "{\"city\": \"Bern\"}"), whole("now", "{}")}}},
  });
}

TEST(ToolCalls, JsonWithoutAClosingMark) {
  check({
      {"llama3",
       "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"SF\"}}",
       {"", {whole("get_weather", "{\"city\": \"SF\"}")}}},
      {"llama3",
       "<|python_tag|>{\"name\":\"now\",\"parameters\":{}}; "
       "{\"name\":\"now\",\"parameters\":{\"a\":1}}",
       {"", {whole("now", "{}"), whole("now", "{\"a\":1}")}}},
      {"llama3",
       "\n [{\"type\":\"function\",\"name\":\"now\",\"parameters\":{}}] ok",
       {" ok", {whole("now", "{}")}}},
      {"llama3",
       "Well <|python_tag|>{\"name\":\"now\",\"parameters\":{}}",
       {"Well", {whole("now", "{}")}}},
      {"llama3", "{\"answer\": 42}", {"{\"answer\": 42}", {}}},
      {"llama3", "[1, 2]", {"[1, 2]", {}}},
      {"llama3",
       "Say {\"name\":\"now\",\"parameters\":{}}",
       {"Say {\"name\":\"now\",\"parameters\":{}}", {}}},
      {"mistral",
       "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Lyon\"}}, "
       "{\"name\": \"now\", \"arguments\": {}, \"id\": \"abc123def\"}]",
       {"", {whole("get_weather", "{\"city\": \"Lyon\"}"), whole("now", "{}")}}},
      {"mistral",
       "Hi[TOOL_CALLS][{\"name\":\"now\",\"arguments\":{}}]\n\nBye",
       {"Hi\n\nBye", {whole("now", "{}")}}},
      {"mistral",
       "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Nice\"}[TOOL_CALLS]now[CALL_ID]a1[ARGS]{}",
       {"", {whole("get_weather", "{\"city\": \"Nice\"}"), whole("now", "{}")}}},
      {"mistral", "[TOOL_CALLS]now{\"a\": 1}", {"", {whole("now", "{\"a\": 1}")}}},
      {"mistral", "[TOOL_CALLS]later[ARGS]{}", {"[TOOL_CALLS]later[ARGS]{}", {}}},
  });
}

TEST(ToolCalls, NameBeforeJson) {
  const char* kV3 =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
      "```json\n{\"city\": \"Tokyo\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
      "<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  const char* kV31 =
      "Fine.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": "
      "\"Tokyo\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}"
      "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
  const char* kKimi =
      "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
      "<|tool_call_argument_begin|>{\"city\": \"Tokyo\"}<|tool_call_end|><|tool_call_begin|>"
      "functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";
  check({
      {"deepseekv3",
       kV3,
       {"", {whole("get_weather", "{\"city\": \"Tokyo\"}"), whole("now", "{}")}}},
      {"deepseekv31",
       kV31,
       {"Fine.", {whole("get_weather", "{\"city\": \"Tokyo\"}"), whole("now", "{}")}}},
      {"kimi_k2",
       kKimi,
       {"",
        {whole("get_weather", "{\"city\": \"Tokyo\"}", "functions.get_weather:0"),
         whole("now", "{}", "functions.now:1")}}},
      // Marks that are missing: the section's, a call's end.
      {"deepseekv31",
       "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>tail",
       {"tail", {whole("now", "{}")}}},
      {"deepseekv31",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}"
       "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"", {whole("now", "{}"), whole("now", "{}")}}},
      {"kimi_k2",
       "<|tool_call_begin|>functions.now:3<|tool_call_argument_begin|><|tool_call_end|>",
       {"", {whole("now", "{}", "functions.now:3")}}},
      {"deepseekv31",
       "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>",
       {"<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>", {}}},
      {"gpt-oss",
       "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Oslo\"}<|call|>",
       {"Need it.", {whole("get_weather", "{\"city\": \"Oslo\"}")}}},
      {"gpt-oss",
       "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>"
       "<|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
       {"Hello.", {whole("now", "{}")}}},
      {"gpt-oss",
       "<|channel|>commentary to=functions.now<|message|>{}<|channel|>final<|message|>Ok",
       {"Ok", {whole("now", "{}")}}},
      {"gpt-oss", "Plain <|end|> text", {"Plain <|end|> text", {}}},
      {"gpt-oss",
       "<|channel|>commentary to=functions.other<|message|>{}<|call|>",
       {"<|channel|>commentary to=functions.other<|message|>{}<|call|>", {}}},
  });
}

TEST(ToolCalls, ParametersInTags) {
  check({
      {"glm45",
       "Looking.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>北京 "
       "\"x\"\n</arg_value>\n"
       "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>where</arg_key>\n"
       "<arg_value>{\"lat\": 1.5}</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
       {"Looking.",
        {whole("get_weather",
               "{\"city\": \"北京 \\\"x\\\"\\n\", \"days\": 3, \"where\": {\"lat\": 1.5}}"),
         whole("now", "{}")}}},
      {"glm47",
       "<tool_call>get_weather<arg_key>city</arg_key><arg_value>a < "
       "b</arg_value><arg_key>new</arg_key>"
       "<arg_value>true</arg_value><arg_key>note</arg_key><arg_value>null</arg_value></tool_call>",
       {"", {whole("get_weather", "{\"city\": \"a < b\", \"new\": true, \"note\": null}")}}},
      {"hunyuan",
       "<tool_calls>\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Xi'an</"
       "arg_value>\n"
       "</tool_call>\n<tool_call>now<tool_sep>\n</tool_call>\n</tool_calls>",
       {"", {whole("get_weather", "{\"city\": \"Xi'an\"}"), whole("now", "{}")}}},
      {"qwen3_coder",
       "I'll do it.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nline 1\n\nline "
       "2\n</parameter>\n"
       "<parameter=metric>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", "
       "\"b\"]\n</parameter>\n</function>\n</tool_call>"
       "\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
       {"I'll do it.",
        {whole("get_weather",
               "{\"city\": \"line 1\\n\\nline 2\", \"metric\": true, \"tags\": [\"a\", \"b\"]}"),
         whole("now", "{}")}}},
      {"step3p5", "<function=now></function>", {"", {whole("now", "{}")}}},
      {"mimo",
       "<tool_call>\n<function=get_weather>\n<parameter=city>pwd && "
       "ls</parameter>\n</function>\n</tool_call>",
       {"", {whole("get_weather", "{\"city\": \"pwd && ls\"}")}}},
      {"minimax-m2",
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"city\">Rio</parameter>\n"
       "<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke "
       "name=\"now\">\n</invoke>\n</minimax:tool_call>",
       {"", {whole("get_weather", "{\"city\": \"Rio\", \"days\": 2}"), whole("now", "{}")}}},
      {"dots",
       "<dots_function_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"city\">Rio</parameter>\n</invoke>\n"
       "</dots_function_call>",
       {"", {whole("get_weather", "{\"city\": \"Rio\"}")}}},
      {"deepseekv32",
       "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
       "name=\"city\" "
       "string=\"true\">12</｜DSML｜parameter>\n<｜DSML｜parameter name=\"extra\" "
       "string=\"false\">[1]"
       "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {"", {whole("get_weather", "{\"city\": \"12\", \"extra\": [1]}")}}},
      {"deepseekv4",
       "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n{ \"city\": \"x\" "
       "}\n</｜DSML｜invoke>\n"
       "</｜DSML｜tool_calls>",
       {"", {whole("get_weather", "{ \"city\": \"x\" }")}}},
      {"step3",
       "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
       "name=\"get_weather\">\n"
       "<steptml:parameter "
       "name=\"city\">Bonn</steptml:parameter>\n</"
       "steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>",
       {"", {whole("get_weather", "{\"city\": \"Bonn\"}")}}},
  });
}

TEST(ToolCalls, Gemma) {
  check({
      {"gemma4",
       "Ok.<|tool_call>call:get_weather{city:<|\"|>a, \"b\" } "
       "<x\n<|\"|>,days:3,where:{lat:-1.5,n:{}},"
       "tags:[<|\"|>x<|\"|>,true,[],2],note:plain words "
       "}<tool_call|><|tool_call>call:now{}<tool_call|> x",
       {"Ok. x",
        {whole("get_weather",
               "{\"city\": \"a, \\\"b\\\" } <x\\n\", \"days\": 3, \"where\": {\"lat\": -1.5, "
               "\"n\": {}}, "
               "\"tags\": [\"x\", true, [], 2], \"note\": \"plain words\"}"),
         whole("now", "{}")}}},
      {"gemma4",
       "<|tool_call>call:other{a:1}<tool_call|>",
       {"<|tool_call>call:other{a:1}<tool_call|>", {}}},
      {"gemma4", "<|tool_call>what", {"<|tool_call>what", {}}},
      {"gemma4",
       "<|tool_call>call:now{a:}<tool_call|>",
       {"}<tool_call|>", {cut("now", "{\"a\": ")}}},
      {"gemma4", "<|tool_call>call:now{a:<|\"|>x", {"", {cut("now", "{\"a\": \"x")}}},
  });
}

TEST(ToolCalls, Pythonic) {
  check({
      {"pythonic",
       "[get_weather(city='Paris', days=3, tags=[\"a\", {'b': None}]), now()]",
       {"",
        {whole("get_weather",
               "{\"city\": \"Paris\", \"days\": 3, \"tags\": [\"a\", {\"b\": null}]}"),
         whole("now", "{}")}}},
      {"pythonic", "Ok: [ now( ) ]", {"Ok:", {whole("now", "{}")}}},
      {"pythonic",
       "See [1] and [get_weather] and [now(x=(1, -2.5))]!",
       {"See [1] and [get_weather] and!", {whole("now", "{\"x\": [1, -2.5]}")}}},
      {"pythonic",
       "<|python_start|>[now(), now(),]<|python_end|>",
       {"", {whole("now", "{}"), whole("now", "{}")}}},
      {"pythonic",
       "[geo.find-place(q=\"a]b)\")]",
       {"", {whole("geo.find-place", "{\"q\": \"a]b)\"}")}}},
      {"pythonic", "[other(x=1)]", {"[other(x=1)]", {}}},
      {"lfm2",
       "<|tool_call_start|>[get_weather(city=\"Cádiz\\n\")]<|tool_call_end|>Checking.",
       {"Checking.", {whole("get_weather", "{\"city\": \"Cádiz\\n\"}")}}},
      // What is no literal ends the call; the rest is text.
      {"pythonic", "[now(x=foo(1))]", {"(1))]", {cut("now", "{\"x\": ")}}},
      {"pythonic", "[now(1)]", {"1)]", {cut("now", "")}}},
  });
}

TEST(ToolCalls, WhatIsNoCallStaysText) {
  check({
      {"qwen25", "a <tool_call b <tool_", {"a <tool_call b <tool_", {}}},
      {"qwen25", "<tool_call>not json</tool_call>", {"<tool_call>not json</tool_call>", {}}},
      {"qwen25",
       "<tool_call>\n{\"name\": \"rm_rf\", \"arguments\": {}}\n</tool_call>",
       {"<tool_call>\n{\"name\": \"rm_rf\", \"arguments\": {}}\n</tool_call>", {}}},
      {"qwen25",
       "<tool_call>{\"arguments\":{\"a\":1}}</tool_call>",
       {"<tool_call>{\"arguments\":{\"a\":1}}</tool_call>", {}}},
      {"qwen25", "<tool_call>[]</tool_call>", {"<tool_call>[]</tool_call>", {}}},
      {"qwen25",
       "<tool_call><tool_call>{\"name\":\"now\"}</tool_call>",
       {"<tool_call>", {whole("now", "{}")}}},
      {"qwen25", " \n text  with  blanks \n ", {" \n text  with  blanks \n ", {}}},
      {"deepseekv3", "<｜tool▁calls▁begin｜>hello", {"<｜tool▁calls▁begin｜>hello", {}}},
      {"deepseekv31", "<｜tool▁call▁begin｜>no name", {"<｜tool▁call▁begin｜>no name", {}}},
      {"kimi_k2",
       "<|tool_call_begin|>functions.x:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
       {"<|tool_call_begin|>functions.x:0<|tool_call_argument_begin|>{}<|tool_call_end|>", {}}},
      {"glm45", "<tool_call>nothing here</tool_call>", {"<tool_call>nothing here</tool_call>", {}}},
      {"qwen3_coder", "<tool_call>\nwhat\n</tool_call>", {"<tool_call>\nwhat\n</tool_call>", {}}},
      {"mistral", "[TOOL_CALLS] and then", {"[TOOL_CALLS] and then", {}}},
      {"pythonic", "[[[now", {"[[[now", {}}},
      {"gpt-oss", "<|channel|>", {"<|channel|>", {}}},
  });
}

TEST(ToolCalls, BrokenCalls) {
  check({
      // Arguments that are no JSON go on as they are, to the closing mark.
      {"qwen25",
       "<tool_call>{\"name\":\"now\",\"arguments\":{\"a\": tru}}</tool_call>x",
       {"x", {cut("now", "{\"a\": tru}}")}}},
      {"deepseekv31",
       "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{'a': 1}<｜tool▁call▁end｜>x",
       {"x", {cut("now", "{'a': 1}")}}},
      {"gpt-oss",
       "<|channel|>commentary to=functions.now<|message|>{a}<|call|>",
       {"", {cut("now", "{a}")}}},
      // Without one they end where the JSON does.
      {"llama3",
       "{\"name\":\"now\",\"parameters\":{\"a\": tru}}",
       {"}}", {cut("now", "{\"a\": tru")}}},
      {"mistral",
       "[TOOL_CALLS] [{\"name\":\"now\"} {\"name\":\"now\"}] x",
       {" x", {whole("now", "{}"), whole("now", "{}")}}},
      // Text between parameters ends the call before it.
      {"glm45",
       "<tool_call>now\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\nhm</tool_call>",
       {"\nhm</tool_call>", {cut("now", "{\"a\": 1}")}}},
      {"qwen25",
       "<tool_call>{\"name\":\"now\",\"arguments\":{}} hm</tool_call>",
       {" hm</tool_call>", {whole("now", "{}")}}},
  });
}

TEST(ToolCalls, CutAtEveryPlace) {
  // Whatever the length at which generation stops: no exception, no byte twice, and a call is
  // complete only if its arguments are.
  const Case kWhole[] = {
      {"qwen25",
       "Hi <tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
       "\"a\"}}\n</tool_call>",
       {}},
      {"llama3", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"a\"}}", {}},
      {"mistral",
       "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\"}}]",
       {}},
      {"deepseekv3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
       "{\"city\": \"a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {}},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
       "<|tool_call_argument_begin|>{\"city\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
       {}},
      {"glm45",
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
       {}},
      {"qwen3_coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\na\n</parameter>\n</function>\n</"
       "tool_call>",
       {}},
      {"pythonic", "[get_weather(city='a')]", {}},
      {"gpt-oss",
       "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": "
       "\"a\"}<|call|>",
       {}},
  };
  for (const Case& each : kWhole) {
    const std::string text = each.text;
    const Parsed last = parse_all_ways(each.format, kTools, text);
    ASSERT_EQ(last.calls.size(), 1u) << each.format;
    EXPECT_EQ(nlohmann::json::parse(last.calls[0].arguments)["city"], "a") << each.format;
    for (size_t length = 0; length < text.size(); ++length) {
      const Parsed part = test::parse(each.format, kTools, text.substr(0, length));
      if (part.calls.empty()) {
        EXPECT_EQ(part.text, text.substr(0, length)) << each.format;
        continue;
      }
      const Call& call = part.calls[0];
      EXPECT_TRUE(last.calls[0].arguments.starts_with(call.arguments)) << call.arguments;
      EXPECT_TRUE(!call.complete || call.arguments == last.calls[0].arguments) << call.arguments;
    }
  }
}

TEST(ToolCalls, RandomTextOfMarksNeverLosesOrBreaksAnything) {
  // Pieces of every format in random order, for every format.
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "{\"name\": \"now\"",
                                           ", \"arguments\": ",
                                           "{\"a\": 1}",
                                           "}",
                                           "{",
                                           "[",
                                           "]",
                                           "\"",
                                           "now",
                                           "get_weather",
                                           "(",
                                           ")",
                                           "city=",
                                           "'x'",
                                           ",",
                                           " ",
                                           "\n",
                                           "text",
                                           "<arg_key>",
                                           "city",
                                           "</arg_key>",
                                           "<arg_value>",
                                           "</arg_value>",
                                           "<function=now>",
                                           "</function>",
                                           "<parameter=city>",
                                           "</parameter>",
                                           "<invoke name=\"",
                                           "\">",
                                           "</invoke>",
                                           "[TOOL_CALLS]",
                                           "[ARGS]",
                                           "<｜tool▁calls▁begin｜>",
                                           "<｜tool▁call▁begin｜>",
                                           "function<｜tool▁sep｜>",
                                           "```json",
                                           "```",
                                           "<｜tool▁call▁end｜>",
                                           "<｜tool▁calls▁end｜>",
                                           "<|tool_call_begin|>",
                                           "functions.now:0",
                                           "<|tool_call_argument_begin|>",
                                           "<|tool_call_end|>",
                                           "<|channel|>",
                                           "commentary to=functions.now",
                                           "<|message|>",
                                           "<|call|>",
                                           "<|python_tag|>",
                                           "<|tool_call>",
                                           "call:now{",
                                           "<|\"|>",
                                           ":",
                                           "<tool_call|>",
                                           "<tool_calls>",
                                           "<tool_sep>",
                                           "<",
                                           "\\",
                                           "null",
                                           "5"};
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    std::string text;
    const size_t count = 1 + random() % 14;
    for (size_t i = 0; i < count; ++i) text += pieces[random() % pieces.size()];
    for (const std::string_view format : tool_call_formats()) {
      const Parsed parsed = parse_all_ways(format, kTools, text);
      size_t size = parsed.text.size();
      for (const Call& call : parsed.calls) size += call.arguments.size();
      EXPECT_LE(size, 6 * text.size() + 64) << text;
    }
  }
}

TEST(ToolCalls, LongArgumentsTakeLinearTime) {
  std::string value(1 << 20, 'x');
  for (size_t i = 0; i < value.size(); i += 50) value[i] = '<';
  const std::string json = "{\"city\": \"" + value + "\"}";
  const struct {
    const char* format;
    std::string begin, value, end;
  } kLong[] = {
      {"qwen25", "<tool_call>{\"name\":\"get_weather\",\"arguments\":", json, "}</tool_call>"},
      {"kimi_k2", "<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>", json,
       "<|tool_call_end|>"},
      {"glm45", "<tool_call>get_weather<arg_key>city</arg_key><arg_value>", value,
       "</arg_value></tool_call>"},
      {"glm45", "<tool_call>get_weather<arg_key>new</arg_key><arg_value>", value,
       "</arg_value></tool_call>"},
      {"pythonic", "[get_weather(city='", value, "')]"},
  };
  for (const auto& each : kLong) {
    const Parsed parsed = test::parse(each.format, kTools, each.begin + each.value + each.end);
    ASSERT_EQ(parsed.calls.size(), 1u) << each.format;
    EXPECT_TRUE(parsed.calls[0].complete);
    EXPECT_EQ(nlohmann::json::parse(parsed.calls[0].arguments).front(), value) << each.format;
  }
  const std::string blanks(1 << 20, ' ');
  EXPECT_EQ(test::parse("qwen25", kTools, blanks).text, blanks);
  const std::string marks = [] {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "<tool_call>";
    return text;
  }();
  EXPECT_EQ(test::parse("qwen25", kTools, marks).text, marks);
  EXPECT_EQ(test::parse("qwen3_coder", kTools, marks).text, marks);
}

TEST(ToolCalls, RegistryKnowsItsNames) {
  EXPECT_EQ(make_tool_call_parser("nosuch", "[]"), nullptr);
  EXPECT_EQ(make_tool_call_parser("", "[]"), nullptr);
  const auto names = tool_call_formats();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string_view name : names) {
    EXPECT_NE(make_tool_call_parser(name, ""), nullptr) << name;
  }
}

TEST(ToolCalls, WithoutToolsEverythingIsText) {
  const std::string text = "<tool_call>{\"name\":\"now\"}</tool_call>";
  for (const std::string_view format : tool_call_formats()) {
    EXPECT_EQ(parse_all_ways(format, "", text).text, text) << format;
  }
}

TEST(ToolCalls, FormatIsReadFromTheTemplate) {
  EXPECT_EQ(tool_call_format_of_template(""), "");
  EXPECT_EQ(tool_call_format_of_template("{{ messages }}"), "");
  EXPECT_EQ(tool_call_format_of_template("<tool_call>{{ x }}</tool_call>"), "qwen25");
  const auto shared = test::shared_folder();
  if (shared.empty()) GTEST_SKIP() << "46 published templates: QUERN_SHARED is missing";
  const std::pair<const char*, const char*> kTemplates[] = {
      {"command-r7b-tools", "cohere_command4"},
      {"deepseek-r1-distill-qwen", "deepseekv3"},
      {"deepseek-v3-tools", "deepseekv3"},
      {"deepseek-v3.1", "deepseekv31"},
      {"deepseek-v3.2", "deepseekv32"},
      {"glm-4.6", "glm45"},
      {"gpt-oss", "gpt-oss"},
      {"hermes-2-pro-tools", "qwen25"},
      {"hermes-3-tools", "qwen25"},
      {"kimi-k2", "kimi_k2"},
      {"llama-3.1-tools", "llama3"},
      {"llama-3.2-tools", "llama3"},
      {"minimax-m2", "minimax-m2"},
      {"mistral-nemo-tools", "mistral"},
      {"mistral-small-3.2", "mistral"},
      {"mistral-v3", "mistral"},
      {"qwen2.5", "qwen25"},
      {"qwen3", "qwen25"},
      {"qwen3-coder", "qwen3_coder"},
      {"qwen3.5", "qwen3_coder"},
      {"gemma-4", "gemma4"},
      {"chatml", ""},
      {"gemma-2", ""},
      {"llama-2", ""},
      {"mistral-instruct", ""},
      {"smollm2", ""},
      {"zephyr", ""},
  };
  for (const auto& [name, format] : kTemplates) {
    const auto file = shared / "chat-templates" / (std::string(name) + ".jinja");
    EXPECT_EQ(tool_call_format_of_template(test::read_file(file)), format) << name;
  }
}

}  // namespace
}  // namespace quern::text

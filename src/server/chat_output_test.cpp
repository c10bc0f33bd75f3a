// Chats whose answers hold reasoning and tool calls: the message, the deltas, and that both say the
// same. The engine of these tests repeats what it is told, so the text is given, whatever the cuts.
#include "server/chat_output.h"

#include <gtest/gtest.h>

#include <string>

#include "server/test_server.h"

namespace quern::server {
namespace {

using Parsed = nlohmann::json;

constexpr const char* kTools = R"("tools":[
  {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
    "city":{"type":"string"},"days":{"type":"integer"}}}}},
  {"type":"function","function":{"name":"now"}}])";

EngineInfo info_with(const std::string& tools, const std::string& reasoning) {
  EngineInfo info = FakeEngine::usual_info();
  info.tool_call_parser = tools;
  info.reasoning_parser = reasoning;
  return info;
}

// What a stream says, put together as clients do.
struct Joined {
  std::string content, reasoning, finish;
  std::vector<Parsed> calls;
  std::vector<Parsed> deltas;
};

class ChatOutputTest : public testing::Test {
 protected:
  void serve(const std::string& tools, const std::string& reasoning) {
    server_ = std::make_unique<TestServer>(test_options(), std::chrono::microseconds(50), 100'000,
                                           info_with(tools, reasoning));
  }

  // The engine says `text` and ends by itself.
  static std::string body(const std::string& text, const std::string& more, bool stream) {
    Parsed json = Parsed::parse("{" + more + "}");
    json["messages"] = {{{"role", "user"}, {"content", text + '\x03'}}};
    json["stop"] = "\x03";
    json["stream"] = stream;
    return json.dump();
  }

  Parsed ask(const std::string& text, const std::string& more) {
    const TestReply reply = server_->post("/v1/chat/completions", body(text, more, false));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json()["choices"][0];
  }

  Joined ask_streamed(const std::string& text, const std::string& more) {
    const TestReply reply = server_->post("/v1/chat/completions", body(text, more, true));
    EXPECT_EQ(reply.status, 200) << reply.body;
    Joined joined;
    size_t at = 0;
    while (at < reply.body.size()) {
      const size_t end = reply.body.find("\n\n", at);
      const std::string data = reply.body.substr(at + 6, end - at - 6);
      at = end + 2;
      if (data == "[DONE]") break;
      const Parsed choice = Parsed::parse(data)["choices"][0];
      const Parsed& delta = choice["delta"];
      joined.deltas.push_back(delta);
      joined.content += delta.value("content", "");
      joined.reasoning += delta.value("reasoning_content", "");
      if (!choice["finish_reason"].is_null()) joined.finish = choice["finish_reason"];
      for (const Parsed& call : delta.value("tool_calls", Parsed::array())) join(call, &joined);
    }
    return joined;
  }

  static void join(const Parsed& call, Joined* joined) {
    const size_t index = call["index"];
    if (index == joined->calls.size()) {
      // Who it is stands in a call's first delta, and there alone.
      EXPECT_EQ(call["type"], "function");
      EXPECT_NE(call["id"], "");
      EXPECT_NE(call["function"]["name"], "");
      joined->calls.push_back(call);
      return;
    }
    ASSERT_EQ(index, joined->calls.size() - 1);
    EXPECT_EQ(call.size(), 2u);
    EXPECT_EQ(call["function"].size(), 1u);
    std::string arguments = joined->calls.back()["function"]["arguments"];
    arguments += call["function"]["arguments"].get<std::string>();
    joined->calls.back()["function"]["arguments"] = arguments;
  }

  // Both ways, which must agree but for the ids; the choice of the whole answer.
  Parsed ask_both_ways(const std::string& text, const std::string& more = kTools) {
    const Parsed choice = ask(text, more);
    const Parsed& message = choice["message"];
    const Joined joined = ask_streamed(text, more);
    EXPECT_EQ(joined.finish, choice["finish_reason"]);
    EXPECT_EQ(joined.content, message["content"].is_null() ? "" : message["content"]);
    const Parsed reasoning = message.value("reasoning_content", Parsed());
    EXPECT_EQ(joined.reasoning, reasoning.is_null() ? "" : reasoning);
    const Parsed calls = message.value("tool_calls", Parsed::array());
    EXPECT_EQ(joined.calls.size(), calls.size());
    for (size_t i = 0; i < std::min(joined.calls.size(), calls.size()); ++i) {
      EXPECT_EQ(joined.calls[i]["function"], calls[i]["function"]);
    }
    return choice;
  }

  std::unique_ptr<TestServer> server_;
};

constexpr const char* kTwoCalls =
    "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

TEST_F(ChatOutputTest, TellsCallsApart) {
  serve("qwen25", "");
  const Parsed choice = ask_both_ways(kTwoCalls);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me see.");
  const Parsed& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["function"],
            Parsed::parse(R"({"name":"get_weather","arguments":"{\"city\": \"Paris\"}"})"));
  EXPECT_EQ(calls[1]["function"], Parsed::parse(R"({"name":"now","arguments":"{}"})"));
  EXPECT_TRUE(calls[0]["id"].get<std::string>().starts_with("call_"));
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
}

TEST_F(ChatOutputTest, ContentIsNullBesideCallsWithoutText) {
  serve("glm45", "");
  const Parsed choice = ask_both_ways("<tool_call>now\n</tool_call>");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{}");
}

TEST_F(ChatOutputTest, KeepsTheIdsOfAFormatThatHasThem) {
  serve("kimi_k2", "");
  const Parsed choice = ask_both_ways(
      "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["id"], "functions.now:0");
}

TEST_F(ChatOutputTest, LooksForCallsOnlyWhereTheModelMayMakeThem) {
  serve("qwen25", "");
  for (const std::string& more : {std::string(), std::string(R"("tools":[])"),
                                 std::string(kTools) + R"(,"tool_choice":"none")"}) {
    const Parsed choice = ask_both_ways(kTwoCalls, more);
    EXPECT_EQ(choice["message"]["content"], kTwoCalls) << more;
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_FALSE(choice["message"].contains("tool_calls"));
  }
  serve("", "");  // a server without a format
  EXPECT_EQ(ask_both_ways(kTwoCalls)["message"]["content"], kTwoCalls);
}

TEST_F(ChatOutputTest, OneCallWhereOneIsAskedFor) {
  serve("qwen25", "");
  const Parsed choice =
      ask_both_ways(kTwoCalls, std::string(kTools) + R"(,"parallel_tool_calls":false)");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "get_weather");
}

TEST_F(ChatOutputTest, ACutAtEveryPlaceEndsWithLength) {
  serve("qwen25", "");
  const std::string text =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a\"}}\n</tool_call>";
  for (size_t length = 1; length < text.size(); length += 3) {
    const Parsed choice =
        ask_both_ways(text, std::string(kTools) + ",\"max_tokens\":" + std::to_string(length));
    EXPECT_EQ(choice["finish_reason"], "length") << length;
    const Parsed& message = choice["message"];
    if (!message.contains("tool_calls")) {
      EXPECT_EQ(message["content"], text.substr(0, length));
      continue;
    }
    EXPECT_TRUE(message["content"].is_null());
    const std::string arguments = message["tool_calls"][0]["function"]["arguments"];
    EXPECT_TRUE(std::string("{\"city\": \"a\"}").starts_with(arguments)) << arguments;
  }
}

TEST_F(ChatOutputTest, SeparatesReasoning) {
  serve("qwen25", "qwen3");
  const Parsed choice = ask_both_ways("<think>\nHm, and.\n</think>\n\nHello.", R"("n":1)");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm, and.");
  EXPECT_EQ(choice["message"]["content"], "Hello.");
  EXPECT_EQ(choice["finish_reason"], "stop");
  const Parsed none = ask_both_ways("Hello.", R"("n":1)");
  EXPECT_TRUE(none["message"]["reasoning_content"].is_null());
  const Parsed both =
      ask_both_ways("<think>I call <tool_ </think>" + std::string(kTwoCalls), kTools);
  EXPECT_EQ(both["message"]["reasoning_content"], "I call <tool_");
  EXPECT_EQ(both["message"]["tool_calls"].size(), 2u);
}

TEST_F(ChatOutputTest, CountsReasoningTokens) {
  serve("", "qwen3");
  const TestReply reply =
      server_->post("/v1/chat/completions", body("<think>abc</think>d", R"("n":1)", false));
  const Parsed usage = reply.json()["usage"];
  // One character a token: abc and the closing mark.
  EXPECT_EQ(usage["reasoning_tokens"], 11);
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 11);
}

TEST_F(ChatOutputTest, LeavesReasoningInTheTextWhereThatIsAskedFor) {
  serve("", "qwen3");
  const Parsed choice = ask_both_ways("<think>a</think>b", R"("separate_reasoning":false)");
  EXPECT_EQ(choice["message"]["content"], "<think>a</think>b");
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
}

TEST_F(ChatOutputTest, ReasoningComesAtOnceWhereItIsNotToBeStreamed) {
  serve("", "qwen3");
  const auto pieces = [](const Joined& joined) {
    return std::count_if(joined.deltas.begin(), joined.deltas.end(),
                         [](const Parsed& delta) { return delta.contains("reasoning_content"); });
  };
  EXPECT_GT(pieces(ask_streamed("<think>abcdef</think>b", R"("n":1)")), 1);
  const Joined held = ask_streamed("<think>abcdef</think>b", R"("stream_reasoning":false)");
  EXPECT_EQ(pieces(held), 1);
  EXPECT_EQ(held.reasoning, "abcdef");
  EXPECT_EQ(held.content, "b");
  const Joined cut = ask_streamed("<think>abc", R"("stream_reasoning":false)");
  EXPECT_EQ(pieces(cut), 1);
  EXPECT_EQ(cut.reasoning, "abc");
}

TEST_F(ChatOutputTest, EachChoiceHasItsOwnParser) {
  serve("qwen25", "");
  const TestReply reply = server_->post("/v1/chat/completions",
                                        body(kTwoCalls, std::string(kTools) + R"(,"n":3)", false));
  ASSERT_EQ(reply.status, 200);
  const Parsed choices = reply.json()["choices"];
  for (const Parsed& choice : choices) {
    EXPECT_EQ(choice["message"]["tool_calls"].size(), 2u) << choice.dump();
  }
}

TEST_F(ChatOutputTest, RefusesFieldsOfTheWrongType) {
  serve("qwen25", "qwen3");
  for (const char* field :
       {"parallel_tool_calls", "separate_reasoning", "stream_reasoning", "enable_thinking"}) {
    const TestReply reply = server_->post(
        "/v1/chat/completions", body("a", "\"" + std::string(field) + "\":\"yes\"", false));
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(reply.json()["error"]["param"], field);
  }
}

TEST_F(ChatOutputTest, EnableThinkingIsAVariableOfTheTemplate) {
  serve("", "");
  ask("a", R"("enable_thinking":false,"chat_template_kwargs":{"thinking":true})");
  EXPECT_EQ(Parsed::parse(server_->engine().last_request().chat.template_kwargs),
            Parsed::parse(R"({"thinking":true,"enable_thinking":false})"));
}

}  // namespace
}  // namespace quern::server

// The OpenAI routes over a real socket: shapes of answers and streams, and what is refused.
#include "server/openai_api.h"

#include <gtest/gtest.h>

#include <set>

#include "server/json_body.h"
#include "server/test_server.h"

namespace quern::server {
namespace {

using Parsed = nlohmann::json;

std::string chat(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":4)" +
         (more.empty() ? "" : "," + more) + "}";
}
std::string complete(const std::string& more) {
  return R"({"model":"m","prompt":"hello","max_tokens":4)" + (more.empty() ? "" : "," + more) + "}";
}

// The JSON of every event but [DONE], which must be the last.
std::vector<Parsed> events(const std::string& body) {
  std::vector<Parsed> list;
  size_t at = 0;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    EXPECT_TRUE(body.substr(at).starts_with("data: "));
    const std::string data = body.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") {
      EXPECT_EQ(at, body.size());
      return list;
    }
    list.push_back(Parsed::parse(data));
  }
  ADD_FAILURE() << "no [DONE]";
  return list;
}

class OpenAiApi : public testing::Test {
 protected:
  TestServer server;
};

TEST_F(OpenAiApi, AnswersAChat) {
  const TestReply reply = server.post("/v1/chat/completions", chat(""));
  ASSERT_EQ(reply.status, 200);
  Parsed json = reply.json();
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "m");
  EXPECT_GT(json["created"], 1'600'000'000);
  EXPECT_EQ(json["choices"], Parsed::parse(R"([{"index":0,"message":{"role":"assistant",
      "content":"hell"},"logprobs":null,"finish_reason":"length","matched_stop":null}])"));
  EXPECT_EQ(json["usage"],
            Parsed::parse(R"({"prompt_tokens":5,"completion_tokens":4,"total_tokens":9,
                              "prompt_tokens_details":{"cached_tokens":2}})"));
}

TEST_F(OpenAiApi, StreamsAChat) {
  const TestReply reply = server.post("/v1/chat/completions", chat(R"("stream":true)"));
  EXPECT_EQ(reply.headers.at("Content-Type"), "text/event-stream; charset=utf-8");
  const auto list = events(reply.body);
  ASSERT_EQ(list.size(), 6u);
  EXPECT_EQ(list[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(list[0]["choices"], Parsed::parse(R"([{"index":0,"delta":{"role":"assistant",
      "content":""},"logprobs":null,"finish_reason":null,"matched_stop":null}])"));
  std::string text;
  for (size_t i = 1; i < 5; ++i) text += list[i]["choices"][0]["delta"]["content"];
  EXPECT_EQ(text, "hell");
  EXPECT_EQ(
      list[5]["choices"],
      Parsed::parse(
          R"([{"index":0,"delta":{},"logprobs":null,"finish_reason":"length","matched_stop":null}])"));
  for (const Parsed& chunk : list) {
    EXPECT_EQ(chunk["id"], list[0]["id"]);
    EXPECT_FALSE(chunk.contains("usage"));
  }
}

TEST_F(OpenAiApi, SendsUsageInAStreamWhenAsked) {
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    const std::string options = R"("stream":true,"stream_options":{"include_usage":true})";
    const bool is_chat = std::string_view(path).find("chat") != std::string_view::npos;
    const auto list = events(server.post(path, is_chat ? chat(options) : complete(options)).body);
    ASSERT_GE(list.size(), 3u);
    for (size_t i = 0; i + 1 < list.size(); ++i) EXPECT_TRUE(list[i]["usage"].is_null());
    EXPECT_EQ(list.back()["choices"], Parsed::array());
    EXPECT_EQ(list.back()["usage"]["total_tokens"], 9);
  }
  for (const char* more :
       {R"("stream":true,"stream_options":{"include_usage":false})",
        R"("stream":true,"stream_options":null)", R"("stream":true,"stream_options":{})"}) {
    for (const Parsed& chunk : events(server.post("/v1/completions", complete(more)).body)) {
      EXPECT_FALSE(chunk.contains("usage")) << more;
    }
  }
}

TEST_F(OpenAiApi, AnswersCompletionsOfTextsAndTokens) {
  const auto texts = [&](const std::string& prompt) {
    const TestReply reply =
        server.post("/v1/completions", R"({"model":"","max_tokens":2,"prompt":)" + prompt + "}");
    std::vector<std::string> list;
    const Parsed json = reply.json();
    for (const Parsed& choice : json["choices"]) list.push_back(choice["text"]);
    return list;
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(texts(R"("abc")"), List({"ab"}));
  EXPECT_EQ(texts("[120,121]"), List({"xy"}));
  EXPECT_EQ(texts(R"(["abc"])"), List({"ab"}));
  EXPECT_EQ(texts(R"(["abc","def"])"), List({"ab", "de"}));
  EXPECT_EQ(texts("[[120,121],[122]]"), List({"xy", "zz"}));
}

TEST_F(OpenAiApi, SaltAndKeyDecideWhoSharesPrefixes) {
  const auto space = [&](const std::string& more) {
    EXPECT_EQ(server.post("/v1/completions", complete(more)).status, 200);
    return server.engine().last_request().cache_space;
  };
  EXPECT_EQ(space(R"("cache_salt":"")"), "");
  std::set<std::string> spaces;
  for (const std::string more :
       {R"("cache_salt":"ab")", R"("extra_key":"ab")", R"("cache_salt":"a","extra_key":"b")",
        R"("cache_salt":"a")", R"("cache_salt":"a1","extra_key":"b")"}) {
    EXPECT_TRUE(spaces.insert(space(more)).second) << more;
  }
  const std::string long_key(4097, 'k');
  EXPECT_EQ(server.post("/v1/completions", complete(R"("extra_key":")" + long_key + "\"")).status,
            400);
  EXPECT_EQ(server.post("/v1/completions", complete(R"("cache_salt":5)")).status, 400);
}

TEST_F(OpenAiApi, TakesAPriority) {
  EXPECT_EQ(server.post("/v1/completions", complete(R"("priority":-7)")).status, 200);
  EXPECT_EQ(server.engine().last_request().priority, -7);
  EXPECT_EQ(server.post("/v1/completions", complete(R"("priority":1e10)")).status, 400);
  EXPECT_EQ(server.post("/v1/completions", complete(R"("priority":"high")")).status, 400);
}

TEST_F(OpenAiApi, GivesEachChoiceItsOwnSeed) {
  const std::string more = R"("n":3,"seed":1)";
  const Parsed json = server.post("/v1/completions", complete(more)).json();
  ASSERT_EQ(json["choices"].size(), 3u);
  EXPECT_EQ(json["choices"][0]["text"], "ello");
  EXPECT_EQ(json["choices"][1]["text"], "lloh");
  EXPECT_EQ(json["choices"][2]["text"], "lohe");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(json["usage"]["completion_tokens"], 12);

  std::map<int, std::string> streamed;
  std::map<int, std::string> reasons;
  const TestReply reply =
      server.post("/v1/completions", complete(more + R"(,"stream":true,"stop":"h")"));
  for (const Parsed& chunk : events(reply.body)) {
    const Parsed& choice = chunk["choices"][0];
    streamed[choice["index"]] += choice["text"];
    if (!choice["finish_reason"].is_null()) reasons[choice["index"]] = choice["finish_reason"];
  }
  EXPECT_EQ(streamed, (std::map<int, std::string>{{0, "ello"}, {1, "llo"}, {2, "lo"}}));
  EXPECT_EQ(reasons, (std::map<int, std::string>{{0, "length"}, {1, "stop"}, {2, "stop"}}));
}

TEST_F(OpenAiApi, TellsTheLikeliestOfBestOf) {
  // Made are "he", "eL", "LL" and "Lo", of which capitals are likelier; equal ones keep their
  // order.
  const std::string body = R"({"prompt":"heLLo","max_tokens":2,"seed":0,"best_of":4,"n":)";
  const Parsed best = server.post("/v1/completions", body + "1}").json();
  ASSERT_EQ(best["choices"].size(), 1u);
  EXPECT_EQ(best["choices"][0]["text"], "LL");
  EXPECT_EQ(best["choices"][0]["index"], 0);
  EXPECT_TRUE(best["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(best["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(best["usage"]["completion_tokens"], 8);  // of all that were made

  const auto texts = [&](const std::string& more) {
    std::vector<std::string> list;
    const Parsed json = server.post("/v1/completions", body + more).json();
    for (const Parsed& choice : json["choices"]) {
      EXPECT_EQ(choice["index"], list.size());
      list.push_back(choice["text"]);
    }
    return list;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("3}"), (Texts{"LL", "eL", "Lo"}));
  EXPECT_EQ(texts("4}"), (Texts{"he", "eL", "LL", "Lo"}));  // none is left out: in their order
  EXPECT_EQ(texts(R"(2,"prompt":["heLLo","abcDe"]})"), (Texts{"LL", "eL", "cD", "De"}));
  // By token: the longer answer has the smaller sum.
  EXPECT_EQ(texts(R"(1,"max_tokens":4,"stop":"e"})"), Texts{"LLoh"});
  const Parsed told = server.post("/v1/completions", body + R"(1,"logprobs":0})").json();
  EXPECT_EQ(told["choices"][0]["logprobs"]["token_logprobs"], Parsed::parse("[-0.25,-0.25]"));
}

TEST_F(OpenAiApi, PassesSamplingOn) {
  server.post("/v1/completions",
              complete(
                  R"("temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"seed":-1,"stop":["a","b"],
         "stop_token_ids":[3],"ignore_eos":true,"max_completion_tokens":2)"));
  const SamplingParams sampling = server.engine().last_request().sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_p, 0.9);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(sampling.stop_token_ids, std::vector<std::int32_t>{3});
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.max_tokens, 2);
}

TEST_F(OpenAiApi, FillsInDefaults) {
  server.post("/v1/completions", R"({"prompt":"a","stop":null,"seed":null,"temperature":null})");
  const SamplingParams sampling = server.engine().last_request().sampling;
  EXPECT_EQ(sampling.temperature, 1.0);
  EXPECT_EQ(sampling.top_p, 1.0);
  EXPECT_EQ(sampling.top_k, 40) << "the model's own";
  EXPECT_EQ(sampling.max_tokens, 16);
  EXPECT_EQ(sampling.seed, std::nullopt);
  server.post("/v1/completions", complete(R"("top_p":0)"));
  EXPECT_EQ(server.engine().last_request().sampling.temperature, 0.0);
}

TEST_F(OpenAiApi, ReadsMessagesInEveryForm) {
  const TestReply reply = server.post("/v1/chat/completions", R"({"max_tokens":1,"messages":[
      {"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null},{"role":"user","content":"c","name":"d"}]})");
  ASSERT_EQ(reply.status, 200);
  const auto messages = server.engine().last_request().messages.value();
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].fields,
            R"({"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})");
  EXPECT_EQ(messages[1].fields, R"({"content":null})");
  EXPECT_EQ(messages[2].content, "c");
  EXPECT_EQ(messages[2].fields, R"({"name":"d"})");
}

// What only the template understands reaches it, members in the order they were sent in.
TEST_F(OpenAiApi, HandsToolsAndVariablesToTheTemplate) {
  const std::string call =
      R"({"id":"c","type":"function","function":{"name":"f","arguments":"{}"}})";
  const TestReply reply = server.post("/v1/chat/completions", R"({"max_tokens":1,"messages":[
      {"role":"assistant","tool_calls":[)" + call + R"(]},
      {"role":"tool","tool_call_id":"x","content":"c"}],
      "tools":[{"type":"function","function":{"name":"f","a":1}}],"tool_choice":"auto",
      "documents":[{"title":"t","id":2}],"chat_template_kwargs":{"z":1,"a":null},
      "reasoning_effort":"high","continue_final_message":true})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Request request = server.engine().last_request();
  EXPECT_EQ(request.messages.value()[0].fields,
            R"({"tool_calls":[)" + call + R"(],"content":null})");
  EXPECT_EQ(request.messages.value()[1].fields, R"({"tool_call_id":"x"})");
  EXPECT_EQ(request.chat.tools, R"([{"type":"function","function":{"name":"f","a":1}}])");
  EXPECT_EQ(request.chat.documents, R"([{"title":"t","id":2}])");
  EXPECT_EQ(request.chat.template_kwargs, R"({"z":1,"a":null,"reasoning_effort":"high"})");
  EXPECT_TRUE(request.chat.continue_final_message);
  EXPECT_FALSE(request.chat.add_generation_prompt);
  const auto none = server.post("/v1/chat/completions", R"({"max_tokens":1,"tool_choice":"none",
      "tools":[{"type":"function","function":{"name":"f"}}],
      "messages":[{"role":"user","content":"c"}]})");
  EXPECT_EQ(none.status, 200);
  EXPECT_EQ(server.engine().last_request().chat.tools, "");
  EXPECT_TRUE(server.engine().last_request().chat.add_generation_prompt);
}

TEST_F(OpenAiApi, RefusesBadTemplateFields) {
  struct Field {
    const char *more, *param;
  };
  for (const Field& bad :
       {Field{R"("tools":{})", "tools"},
        {R"("tools":[1])", "tools[0]"},
        {R"("documents":"d")", "documents"},
        {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
        {R"("continue_final_message":1)", "continue_final_message"},
        {R"("tool_choice":"required")", "tool_choice"},
        {R"("tool_choice":5)", "tool_choice"},
        {R"("tool_choice":{"type":"function"})", "tool_choice.function"},
        {R"("tool_choice":{"function":{"name":"f"}})", "tool_choice.function.name"}}) {
    const TestReply reply =
        server.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],)" +
                                                std::string(bad.more) + "}");
    EXPECT_EQ(reply.status, 400) << bad.more;
    EXPECT_EQ(reply.json()["error"]["param"], bad.param) << bad.more;
  }
}

TEST_F(OpenAiApi, RefusesTemplateFieldsWhereNoTemplateIsUsed) {
  for (const char* more :
       {R"("tools":[{"type":"function"}])", R"("tool_choice":"auto")",
        R"("chat_template_kwargs":{"a":1})", R"("continue_final_message":true)"}) {
    const TestReply reply = server.post("/v1/completions", complete(more));
    EXPECT_EQ(reply.status, 400) << more;
    EXPECT_EQ(reply.json()["error"]["code"], "field_not_served") << more;
  }
}

// Members are found by comparing, so an object must not have so many that this takes long.
TEST_F(OpenAiApi, RefusesObjectsWithHugeNumbersOfMembers) {
  std::string body = "{\"prompt\":\"a\",\"max_tokens\":1,\"x\":{";
  for (int i = 0; i < 20000; ++i) body += "\"k" + std::to_string(i) + "\":0,";
  const TestReply reply = server.post("/v1/completions", body + "\"k\":0}}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("too many members"), std::string::npos) << reply.body;
}

struct Bad {
  const char* more;  // fields added to a good request
  int status;
  const char* param;
};

TEST_F(OpenAiApi, RefusesBadFields) {
  const Bad bads[] = {
      {R"("n":0)", 400, "n"},
      {R"("n":9)", 400, "n"},
      {R"("n":1.5)", 400, "n"},
      {R"("temperature":-1)", 400, "temperature"},
      {R"("temperature":1e30)", 400, "temperature"},
      {R"("temperature":"1")", 400, "temperature"},
      {R"("temperature":true)", 400, "temperature"},
      {R"("top_p":1.0001)", 400, "top_p"},
      {R"("top_p":-1)", 400, "top_p"},
      {R"("min_p":1.5)", 400, "min_p"},
      {R"("top_k":-2)", 400, "top_k"},
      {R"("top_k":0.01)", 400, "top_k"},
      {R"("top_k":1e20)", 400, "top_k"},
      {R"("top_k":99999999999999999999)", 400, "top_k"},
      {R"("max_tokens":0)", 400, "max_tokens"},
      {R"("max_tokens":"5")", 400, "max_tokens"},
      {R"("max_completion_tokens":-1)", 400, "max_completion_tokens"},
      {R"("seed":1.5)", 400, "seed"},
      {R"("seed":18446744073709551616)", 400, "seed"},
      {R"("seed":"x")", 400, "seed"},
      {R"("stop":"")", 400, "stop"},
      {R"("stop":["a",""])", 400, "stop"},
      {R"("stop":[1])", 400, "stop"},
      {R"("stop":{})", 400, "stop"},
      {R"("stop":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"])", 400,
       "stop"},
      {R"("stop_token_ids":[-1])", 400, "stop_token_ids"},
      {R"("stop_token_ids":5)", 400, "stop_token_ids"},
      {R"("ignore_eos":1)", 400, "ignore_eos"},
      {R"("stream":"yes")", 400, "stream"},
      {R"("stream_options":{"include_usage":true})", 400, "stream_options"},
      {R"("stream":true,"stream_options":5)", 400, "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":5})", 400,
       "stream_options.include_usage"},
      {R"("model":"other")", 404, "model"},
      {R"("model":5)", 400, "model"},
      {R"("response_format":{"type":"xml"})", 400, "response_format.type"},
      {R"("response_format":"text")", 400, "response_format"},
      {R"("response_format":{"type":"json_schema"})", 400, "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})", 400,
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_object"},"regex":"a")", 400, "regex"},
      {R"("ebnf":5)", 400, "ebnf"},
      {R"("logprobs":"5")", 400, "logprobs"},
      {R"("logprobs":-1)", 400, "logprobs"},
      {R"("top_logprobs":5)", 400, "top_logprobs"},
      {R"("logit_bias":{"256":1})", 400, "logit_bias"},
      {R"("logit_bias":{"-1":1})", 400, "logit_bias"},
      {R"("logit_bias":{"abc":1})", 400, "logit_bias"},
      {R"("logit_bias":{"":1})", 400, "logit_bias"},
      {R"("logit_bias":{"5":1e30})", 400, "logit_bias"},
      {R"("logit_bias":{"5":"1"})", 400, "logit_bias"},
      {R"("logit_bias":[1])", 400, "logit_bias"},
      {R"("presence_penalty":2.1)", 400, "presence_penalty"},
      {R"("frequency_penalty":-2.1)", 400, "frequency_penalty"},
      {R"("repetition_penalty":0)", 400, "repetition_penalty"},
      {R"("repetition_penalty":2.5)", 400, "repetition_penalty"},
      {R"("min_tokens":-1)", 400, "min_tokens"},
      {R"("max_tokens":5,"min_tokens":6)", 400, "min_tokens"},
      {R"("functions":[{}])", 400, "functions"},
      {R"("audio":{})", 400, "audio"},
      {R"("modalities":["audio"])", 400, "modalities"},
      {R"("echo":1)", 400, "echo"},
      {R"("best_of":0)", 400, "best_of"},
      {R"("best_of":21)", 400, "best_of"},
      {R"("best_of":2,"n":3)", 400, "best_of"},
      {R"("best_of":2,"stream":true)", 400, "best_of"},
      {R"("best_of":"2")", 400, "best_of"},
      {R"("suffix":"x")", 400, "suffix"},
      {R"("regex":["a"])", 400, "regex"},
  };
  for (const Bad& bad : bads) {
    for (const char* stream : {"", R"(,"stream":true)"}) {
      const bool twice = std::string_view(bad.more).find("stream") != std::string_view::npos;
      const std::string more = bad.more + std::string(twice ? "" : stream);
      for (const bool is_chat : {true, false}) {
        const TestReply reply = is_chat ? server.post("/v1/chat/completions", chat(more))
                                        : server.post("/v1/completions", complete(more));
        EXPECT_EQ(reply.status, bad.status) << more;
        const Parsed error = reply.json()["error"];
        EXPECT_EQ(error["param"], bad.param) << more;
        EXPECT_EQ(error["type"], "invalid_request_error") << more;
        EXPECT_TRUE(error["code"].is_string() && error["message"].is_string()) << more;
        EXPECT_EQ(error["id"].get<std::string>().size(), 16u);
      }
    }
  }
}

TEST_F(OpenAiApi, LetsHarmlessFieldsThrough) {
  for (const char* more :
       {R"("tools":[],"tool_choice":"none","functions":[])", R"("response_format":{"type":"text"})",
        R"("logprobs":false,"top_logprobs":null)", R"("logit_bias":{},"presence_penalty":0)",
        R"("frequency_penalty":0.0,"modalities":["text"])", R"("echo":false,"best_of":1,"n":1)",
        R"("user":"me","unheard_of":{"a":1},"store":false)", R"("stop":[],"seed":5.0e0)",
        R"("top_k":0)", R"("top_k":5.0)", R"("temperature":1e-10)", R"("suffix":"")"}) {
    const bool odd = std::string_view(more).find("5.0e0") != std::string_view::npos;
    EXPECT_EQ(server.post("/v1/completions", complete(more)).status, odd ? 400 : 200) << more;
  }
}

TEST_F(OpenAiApi, RefusesBadPromptsAndMessages) {
  const Bad prompts[] = {
      {"null", 400, "prompt"},
      {"5", 400, "prompt"},
      {"{}", 400, "prompt"},
      {"[]", 400, "prompt"},
      {"[[]]", 400, "prompt"},
      {"[1,\"a\"]", 400, "prompt"},
      {"[\"a\",1]", 400, "prompt"},
      {"[-1]", 400, "prompt"},
      {"[1.5]", 400, "prompt"},
      {"[4294967296]", 400, "prompt"},
      {"[18446744073709551615]", 400, "prompt"},
      {"[null]", 400, "prompt"},
  };
  for (const Bad& bad : prompts) {
    const TestReply reply =
        server.post("/v1/completions", R"({"prompt":)" + std::string(bad.more) + "}");
    EXPECT_EQ(reply.status, bad.status) << bad.more;
    EXPECT_EQ(reply.json()["error"]["param"], bad.param) << bad.more;
  }
  const Bad chats[] = {
      {"null", 400, "messages"},
      {"[]", 400, "messages"},
      {"\"hi\"", 400, "messages"},
      {"[5]", 400, "messages[0]"},
      {R"([{"content":"a"}])", 400, "messages[0].role"},
      {R"([{"role":"king","content":"a"}])", 400, "messages[0].role"},
      {R"([{"role":5,"content":"a"}])", 400, "messages[0].role"},
      {R"([{"role":"user"}])", 400, "messages[0].content"},
      {R"([{"role":"user","content":5}])", 400, "messages[0].content"},
      {R"([{"role":"user","content":[5]}])", 400, "messages[0].content[0]"},
      {R"([{"role":"user","content":[{"type":"image_url"}]}])", 400, "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", 400, "messages[0].content[0].text"},
      {R"([{"role":"assistant","tool_calls":5}])", 400, "messages[0].tool_calls"},
  };
  for (const Bad& bad : chats) {
    const TestReply reply =
        server.post("/v1/chat/completions", R"({"messages":)" + std::string(bad.more) + "}");
    EXPECT_EQ(reply.status, bad.status) << bad.more;
    EXPECT_EQ(reply.json()["error"]["param"], bad.param) << bad.more;
  }
}

// Every answer is valid UTF-8 and JSON, whatever bytes came in.
TEST_F(OpenAiApi, RefusesBodiesThatAreNotJson) {
  const std::string bodies[] = {"",
                                "{",
                                "[]",
                                "5",
                                "null",
                                "\"a\"",
                                "{\"prompt\":\"\xFF\"}",
                                "{\"prompt\":\"caf\xE9\"}",
                                "\xFF\xFE",
                                "{\"prompt\":\"\\ud83d\"}",
                                "\xEF\xBB\xBF{\"prompt\":\"a\"}",
                                "{\"prompt\":NaN}",
                                "{\"temperature\":1e999,\"prompt\":\"a\"}",
                                "{'prompt':'a'}",
                                "{\"prompt\":\"a\"}x",
                                std::string(100'000, '['),
                                std::string("{\"a\":\0}", 7)};
  for (const std::string& body : bodies) {
    const TestReply reply = server.post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << body.substr(0, 50);
    EXPECT_EQ(valid_utf8(reply.body), reply.body);
    EXPECT_TRUE(reply.json()["error"]["message"].is_string()) << body.substr(0, 50);
  }
  EXPECT_EQ(server.post("/v1/completions", "{\"prompt\":\"a\\u0000b\",\"max_tokens\":3}").status,
            200);
  EXPECT_EQ(server.post("/v1/completions", "{\"prompt\":5,\"prompt\":\"a\"}").status, 200);
}

TEST_F(OpenAiApi, BoundsTheNumberOfValues) {
  std::string body = R"({"prompt":[0)";
  for (std::int64_t i = 0; i < kMaxJsonValues; ++i) body += ",0";
  const TestReply reply = server.post("/v1/completions", body + "]}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], "invalid_json");
}

TEST_F(OpenAiApi, ReportsWhatTheEngineRefuses) {
  const TestReply reply = server.post("/v1/completions", R"({"prompt":"!throw","stream":true})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], "field_out_of_range");
  EXPECT_EQ(reply.json()["error"]["param"], "prompt") << "the server names the field";
  EXPECT_EQ(valid_utf8(reply.body), reply.body);
}

TEST_F(OpenAiApi, ReportsAFaultByStatusBeforeTheFirstByteAndByEventAfterIt) {
  for (const char* stream : {"true", "false"}) {
    const TestReply early = server.post(
        "/v1/completions", std::string(R"({"prompt":"!fail0","stream":)") + stream + "}");
    EXPECT_EQ(early.status, 500);
    EXPECT_EQ(early.json()["error"]["message"], "numeric fault");
    EXPECT_EQ(early.json()["error"]["code"], "internal_error");
  }
  TestClient client(server.port());
  client.post("/v1/completions", R"({"prompt":"!fail2","stream":true})");
  const TestReply late = client.reply();
  EXPECT_EQ(late.status, 200);
  const size_t at = late.body.find("data: {\"error\":");
  ASSERT_NE(at, late.body.npos);
  EXPECT_EQ(Parsed::parse(late.body.substr(at + 6))["error"]["message"], "numeric fault");
  EXPECT_EQ(client.more(), "");
  // One failing choice ends its siblings too.
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":["!fail2","abc"],"max_tokens":100000000})")
                .status,
            500);
  EXPECT_TRUE(server.becomes_quiet());
}

}  // namespace
}  // namespace quern::server

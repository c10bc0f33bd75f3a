// SGLang's native route and the pages over a real socket.
#include "server/native_api.h"

#include <gtest/gtest.h>

#include "server/json_body.h"
#include "server/pages.h"
#include "server/test_server.h"

namespace quern::server {
namespace {

class NativeApi : public testing::Test {
 protected:
  TestServer server;
};

TEST_F(NativeApi, AnswersTextAndIds) {
  const TestReply reply = server.post(
      "/generate", R"({"text":"abc","rid":"mine","sampling_params":{"max_new_tokens":2}})");
  ASSERT_EQ(reply.status, 200);
  Json json = reply.json();
  EXPECT_EQ(json["text"], "ab");
  EXPECT_EQ(json["output_ids"], Json::array({97, 98}));
  EXPECT_EQ(json["meta_info"]["id"], "mine");
  EXPECT_EQ(json["meta_info"]["finish_reason"],
            nlohmann::json::parse(R"({"type":"length","length":2})"));
  EXPECT_EQ(json["meta_info"]["prompt_tokens"], 3);
  EXPECT_EQ(json["meta_info"]["completion_tokens"], 2);
  EXPECT_EQ(json["meta_info"]["cached_tokens"], 1);
  EXPECT_GE(json["meta_info"]["e2e_latency"], 0.0);

  json =
      server.post("/generate", R"({"input_ids":[120,121],"sampling_params":{"stop":"y"}})").json();
  EXPECT_EQ(json["text"], "x");
  EXPECT_EQ(json["output_ids"], Json::array({120, 121}));
  EXPECT_EQ(json["meta_info"]["finish_reason"],
            nlohmann::json::parse(R"({"type":"stop","matched":"y"})"));
}

TEST_F(NativeApi, StreamsWhatIsThereSoFar) {
  const TestReply reply = server.post(
      "/generate", R"({"text":"abc","stream":true,"sampling_params":{"max_new_tokens":20}})");
  ASSERT_TRUE(reply.body.ends_with("data: [DONE]\n\n"));
  std::string before;
  size_t at = 0;
  Json last;
  while (reply.body.compare(at, 12, "data: [DONE]") != 0) {
    const size_t end = reply.body.find("\n\n", at);
    last = Json::parse(reply.body.substr(at + 6, end - at - 6));
    const std::string text = last["text"];
    EXPECT_TRUE(text.starts_with(before) && text.size() > before.size());
    EXPECT_EQ(last["output_ids"].size(), text.size());
    EXPECT_EQ(last["meta_info"]["finish_reason"].is_null(), text.size() < 20);
    before = text;
    at = end + 2;
  }
  EXPECT_EQ(before, "abcabcabcabcabcabcab");
}

TEST_F(NativeApi, FillsInDefaults) {
  server.post("/generate", R"({"text":"abc","sampling_params":{"sampling_seed":5}})");
  EXPECT_EQ(server.engine().last_request().sampling.max_tokens, 128);
  EXPECT_EQ(server.engine().last_request().sampling.seed, 5u);
}

TEST_F(NativeApi, RefusesBadRequests) {
  const std::pair<const char*, const char*> bads[] = {
      {R"({})", "text"},
      {R"({"text":"a","input_ids":[1]})", "input_ids"},
      {R"({"text":5})", "text"},
      {R"({"text":["a","b"]})", "text"},
      {R"({"input_ids":[]})", "input_ids"},
      {R"({"input_ids":[-1]})", "input_ids"},
      {R"({"input_ids":"a"})", "input_ids"},
      {R"({"text":"a","sampling_params":[]})", "sampling_params"},
      {R"({"text":"a","sampling_params":{"max_new_tokens":-1}})", "sampling_params.max_new_tokens"},
      {R"({"text":"a","sampling_params":{"top_p":2}})", "sampling_params.top_p"},
      {R"({"text":"a","sampling_params":{"stop":""}})", "sampling_params.stop"},
      {R"({"text":"a","sampling_params":{"n":2}})", "sampling_params.n"},
      {R"({"text":"a","sampling_params":{"regex":5}})", "sampling_params.regex"},
      {R"({"text":"a","sampling_params":{"regex":"a","json_schema":"{}"}})", "sampling_params.regex"},
      {R"({"text":"a","return_logprob":1})", "return_logprob"},
      {R"({"text":"a","return_logprob":true,"top_logprobs_num":65})", "top_logprobs_num"},
      {R"({"text":"a","return_logprob":true,"logprob_start_len":-2})", "logprob_start_len"},
      {R"({"text":"a","return_logprob":true,"token_ids_logprob":[256]})", "token_ids_logprob"},
      {R"({"text":"a","stream":1})", "stream"},
  };
  for (const auto& [body, param] : bads) {
    const TestReply reply = server.post("/generate", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.json()["error"]["param"], param) << body;
  }
}

TEST_F(NativeApi, NamesBothFormsOfAPromptGivenTwice) {
  Json found = server.post("/generate", R"({"text":"a","input_ids":[1]})").json()["error"];
  EXPECT_EQ(found["code"], "field_out_of_range");
  EXPECT_EQ(found["message"],
            "input_ids is out of range: it must be absent where text is given, and it is [1].");
  const TestReply reply =
      server.post("/tokenize", R"({"prompt":"a","messages":[{"role":"user","content":"b"}]})");
  EXPECT_EQ(reply.status, 400);
  found = reply.json()["error"];
  EXPECT_EQ(found["param"], "messages");
  EXPECT_NE(std::string(found["message"]).find("absent where prompt is given"), std::string::npos);
  EXPECT_EQ(server.post("/tokenize", R"({"prompt":"a","text":"b"})").json()["error"]["param"],
            "text");
  EXPECT_EQ(server.post("/tokenize", R"({"prompt":"a","messages":null})").status, 200);
}

TEST_F(NativeApi, ShowsModelsAndFacts) {
  Json json = server.get("/v1/models").json();
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(json["data"][0]["id"], "m");
  EXPECT_EQ(json["data"][0]["max_model_len"], 1000);
  EXPECT_EQ(server.get("/v1/models/m").json()["id"], "m");
  EXPECT_EQ(server.get("/v1/models/%6D").json()["id"], "m");
  const TestReply unknown = server.get("/v1/models/../m");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(server.get("/model_info").json()["model_path"], "/models/<m>.gguf");
  json = server.get("/server_info").json();
  EXPECT_EQ(json["attention_backend"], "torch_native");
  EXPECT_EQ(json["running"], 0);
  EXPECT_EQ(server.get("/health").body, "");
}

TEST(IndexPage, EscapesWhatItShows) {
  EngineInfo info;
  info.served_model_name = "<script>'\"&";
  ServerFacts facts{"http://127.0.0.1:1", false, true};
  const std::string html = index_page(info, facts);
  EXPECT_EQ(html.find("<script>"), html.npos);
  EXPECT_NE(html.find("&lt;script&gt;"), html.npos);
  const std::string command = curl_command(info, facts);
  EXPECT_NE(command.find("/v1/completions"), command.npos);
  EXPECT_NE(command.find("Bearer $API_KEY"), command.npos);
  EXPECT_NE(command.find("'\\''"), command.npos);
  info.has_chat_template = true;
  EXPECT_NE(curl_command(info, facts).find("/v1/chat/completions"), std::string::npos);
}

}  // namespace
}  // namespace quern::server

// Log-probabilities, echo, penalties and bias in the words of each API, over a FakeEngine whose
// every token has the log-probability -0.5 and whose likeliest are a, b, c, ….
#include "server/logprob_json.h"

#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quern::server {
namespace {

using Parsed = nlohmann::json;

class LogprobApi : public ::testing::Test {
 protected:
  Parsed post(const std::string& path, const std::string& body, int status = 200) {
    const TestReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, status) << reply.body;
    return reply.json();
  }
  // The events of a stream.
  std::vector<Parsed> stream(const std::string& path, const std::string& body) {
    const TestReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    std::vector<Parsed> events;
    for (size_t at = 0; (at = reply.body.find("data: {", at)) != std::string::npos; ++at) {
      events.push_back(
          Parsed::parse(reply.body.substr(at + 6, reply.body.find("\n\n", at) - at - 6)));
    }
    return events;
  }

  TestServer server;
};

TEST_F(LogprobApi, GenerateTellsThemAsSglang) {
  const std::string body = R"({"text":"xyz","return_logprob":true,"logprob_start_len":1,
      "top_logprobs_num":2,"token_ids_logprob":[120],"return_text_in_logprobs":true,
      "sampling_params":{"max_new_tokens":2}})";
  const Parsed meta = post("/generate", body)["meta_info"];
  EXPECT_EQ(meta["input_token_logprobs"], Parsed::parse(R"([[null,121,"y"],[-0.5,122,"z"]])"));
  EXPECT_EQ(meta["output_token_logprobs"], Parsed::parse(R"([[-0.5,120,"x"],[-0.5,121,"y"]])"));
  EXPECT_EQ(meta["input_top_logprobs"], Parsed::parse(R"([null,[[-0.25,97,"a"],[-0.5,98,"b"]]])"));
  EXPECT_EQ(meta["output_top_logprobs"].size(), 2u);
  EXPECT_EQ(meta["output_token_ids_logprobs"],
            Parsed::parse(R"([[[-3.0,120,"x"]],[[-3.0,120,"x"]]])"));
  EXPECT_EQ(meta["input_token_ids_logprobs"][0], nullptr);

  const Parsed plain = post("/generate", R"({"text":"xyz","return_logprob":true,
      "sampling_params":{"max_new_tokens":1}})")["meta_info"];
  EXPECT_EQ(plain["output_token_logprobs"], Parsed::parse("[[-0.5,120,null]]"));
  EXPECT_EQ(plain["input_token_logprobs"], Parsed::array());
  EXPECT_FALSE(plain.contains("output_top_logprobs"));
  EXPECT_FALSE(post("/generate", R"({"text":"a"})")["meta_info"].contains("output_token_logprobs"));

  // A stream's frames hold all so far, the last one the same as the answer in one piece.
  const auto frames = stream("/generate", body.substr(0, body.size() - 1) + R"(,"stream":true})");
  ASSERT_FALSE(frames.empty());
  EXPECT_EQ(frames.back()["meta_info"]["output_token_logprobs"], meta["output_token_logprobs"]);
  EXPECT_EQ(frames.back()["meta_info"]["input_token_logprobs"], meta["input_token_logprobs"]);
}

TEST_F(LogprobApi, GenerateScoresAPromptAlone) {
  const Parsed json =
      post("/generate", R"({"text":"xyz","return_logprob":true,"logprob_start_len":0,
      "sampling_params":{"max_new_tokens":0}})");
  EXPECT_EQ(json["text"], "");
  EXPECT_EQ(json["output_ids"], Parsed::array());
  EXPECT_EQ(json["meta_info"]["input_token_logprobs"].size(), 3u);
  EXPECT_EQ(json["meta_info"]["output_token_logprobs"], Parsed::array());
  EXPECT_EQ(json["meta_info"]["finish_reason"], Parsed::parse(R"({"type":"length","length":0})"));
}

std::string chat(const std::string& more) {
  return R"({"model":"m","max_tokens":3,"messages":[{"role":"user","content":"xyz"}],)" + more +
         "}";
}

TEST_F(LogprobApi, ChatsTellThemTokenByToken) {
  const Parsed choice =
      post("/v1/chat/completions", chat(R"("logprobs":true,"top_logprobs":2)"))["choices"][0];
  ASSERT_EQ(choice["logprobs"]["content"].size(), 3u);
  // The drawn token stands behind the likeliest where it is none of them.
  EXPECT_EQ(choice["logprobs"]["content"][0],
            Parsed::parse(R"({"token":"x","logprob":-0.5,"bytes":[120],
      "top_logprobs":[{"token":"a","logprob":-0.25,"bytes":[97]},
                      {"token":"b","logprob":-0.5,"bytes":[98]},
                      {"token":"x","logprob":-0.5,"bytes":[120]}]})"));
  EXPECT_EQ(choice["logprobs"]["refusal"], nullptr);
  for (const char* none : {R"("logprobs":true)", R"("logprobs":true,"top_logprobs":0)"}) {
    EXPECT_EQ(post("/v1/chat/completions",
                   chat(none))["choices"][0]["logprobs"]["content"][2]["top_logprobs"],
              Parsed::array());
  }
  EXPECT_EQ(post("/v1/chat/completions", chat(R"("logprobs":false)"))["choices"][0]["logprobs"],
            nullptr);
  for (const char* bad : {R"("logprobs":true,"top_logprobs":21)",
                          R"("logprobs":true,"top_logprobs":"5")", R"("top_logprobs":1)"}) {
    EXPECT_EQ(post("/v1/chat/completions", chat(bad), 400)["error"]["param"], "top_logprobs")
        << bad;
  }
  EXPECT_EQ(post("/v1/chat/completions", chat(R"("logprobs":3)"), 400)["error"]["param"],
            "logprobs");
  EXPECT_EQ(post("/v1/chat/completions", chat(R"("echo":true)"), 400)["error"]["param"], "echo");

  Parsed joined = Parsed::array();
  for (const Parsed& event :
       stream("/v1/chat/completions", chat(R"("logprobs":true,"top_logprobs":2,"stream":true)"))) {
    const Parsed told = event["choices"][0]["logprobs"];
    if (told.is_object())
      joined.insert(joined.end(), told["content"].begin(), told["content"].end());
  }
  EXPECT_EQ(joined, choice["logprobs"]["content"]);
}

TEST_F(LogprobApi, CompletionsEchoAndTellThem) {
  const std::string body =
      R"({"model":"m","prompt":"xyz","max_tokens":2,"logprobs":1,"echo":true})";
  const Parsed choice = post("/v1/completions", body)["choices"][0];
  EXPECT_EQ(choice["text"], "xyzxy");
  EXPECT_EQ(choice["logprobs"]["tokens"], Parsed::parse(R"(["x","y","z","x","y"])"));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], Parsed::parse("[null,-0.5,-0.5,-0.5,-0.5]"));
  EXPECT_EQ(choice["logprobs"]["text_offset"], Parsed::parse("[0,1,2,3,4]"));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][0], nullptr);
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1], Parsed::parse(R"({"a":-0.25,"y":-0.5})"));
  // Token ids are echoed as their text; without log-probabilities too.
  EXPECT_EQ(post("/v1/completions",
                 R"({"prompt":[120,121],"max_tokens":1,"echo":true})")["choices"][0]["text"],
            "xyx");
  const Parsed zero =
      post("/v1/completions",
           R"({"prompt":"xyz","max_tokens":0,"echo":true,"logprobs":0})")["choices"][0];
  EXPECT_EQ(zero["text"], "xyz");
  EXPECT_EQ(zero["logprobs"]["tokens"].size(), 3u);
  EXPECT_EQ(zero["logprobs"]["top_logprobs"], nullptr);
  EXPECT_EQ(
      post("/v1/completions", R"({"prompt":"xyz","logprobs":false})")["choices"][0]["logprobs"],
      nullptr);
  for (const char* bad : {R"("logprobs":21)", R"("logprobs":1.5)", R"("logprobs":true)"}) {
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"x",)" + std::string(bad) + "}",
                   400)["error"]["param"],
              "logprobs");
  }

  Parsed joined;
  std::string text;
  for (const Parsed& event :
       stream("/v1/completions", body.substr(0, body.size() - 1) + R"(,"stream":true})")) {
    text += event["choices"][0]["text"].get<std::string>();
    const Parsed told = event["choices"][0]["logprobs"];
    if (!told.is_object()) continue;
    for (const auto& [name, list] : told.items()) {
      Parsed& all = joined[name];
      if (all.is_null()) all = Parsed::array();
      for (const Parsed& entry : list) all.push_back(entry);
    }
  }
  EXPECT_EQ(text, "xyzxy");
  EXPECT_EQ(joined, choice["logprobs"]);
}

TEST_F(LogprobApi, TokensThatAreNoTextAloneKeepApart) {
  const auto token = [](std::string bytes, bool written = true) {
    return LogprobToken{1, -1.0f, std::move(bytes), written};
  };
  TokenLogprobs at;
  at.token = token("\xE2\x82");
  at.token.id = 9;
  at.top = {token("\xF0\x9F"), token("\xF0\x9E"), token("<end>", false), token("")};
  std::int64_t offset = 5;
  const std::vector<TokenLogprobs> all = {at};
  const JsonOut json = completion_logprobs(all, {.output = true, .top = 4}, &offset);
  EXPECT_EQ(json["top_logprobs"][0].size(), 5u);
  EXPECT_TRUE(json["top_logprobs"][0].contains("bytes:\\xf0\\x9f"));
  EXPECT_EQ(json["tokens"][0], valid_utf8(at.token.bytes));
  EXPECT_EQ(offset, 6);
  const JsonOut content = chat_logprobs(all, {.output = true, .top = 4});
  EXPECT_EQ(content[0]["bytes"], (JsonOut{0xE2, 0x82}));
  EXPECT_EQ(content[0]["top_logprobs"][2]["token"], "<end>");
  EXPECT_EQ(content[0]["top_logprobs"][2]["bytes"], JsonOut::array());
}

TEST_F(LogprobApi, TheTokenThatEndsAnAnswerIsNoPartOfIt) {
  TokenEvent event;
  event.logprobs.resize(2);
  event.finish_reason = FinishReason::kStop;
  EXPECT_EQ(answered_logprobs(event).size(), 1u);
  event.matched_stop = "x";
  EXPECT_EQ(answered_logprobs(event).size(), 2u);
  event.finish_reason = FinishReason::kLength;
  event.matched_stop.clear();
  EXPECT_EQ(answered_logprobs(event).size(), 2u);
}

TEST_F(LogprobApi, PenaltiesAndBiasReachTheEngine) {
  post("/v1/completions", R"({"prompt":"a","presence_penalty":0.5,"frequency_penalty":-1,
      "repetition_penalty":1.2,"logit_bias":{"5":-100,"7":2.5},"min_tokens":3})");
  SamplingParams found = server.engine().last_request().sampling;
  EXPECT_EQ(found.presence_penalty, 0.5);
  EXPECT_EQ(found.frequency_penalty, -1);
  EXPECT_EQ(found.repetition_penalty, 1.2);
  EXPECT_EQ(found.min_tokens, 3);
  EXPECT_EQ(found.logit_bias,
            (std::vector<std::pair<std::int32_t, float>>{{5, -100.0f}, {7, 2.5f}}));
  post("/generate", R"({"text":"a","sampling_params":{"min_new_tokens":2,"logit_bias":{"1":1}}})");
  found = server.engine().last_request().sampling;
  EXPECT_EQ(found.min_tokens, 2);
  EXPECT_EQ(found.logit_bias.size(), 1u);
  EXPECT_EQ(post("/generate", R"({"text":"a","sampling_params":{"min_new_tokens":200}})",
                 400)["error"]["param"],
            "sampling_params.min_new_tokens");
}

}  // namespace
}  // namespace quern::server

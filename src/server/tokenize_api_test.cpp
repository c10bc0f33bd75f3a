#include "server/tokenize_api.h"

#include <gtest/gtest.h>

#include "server/json_body.h"
#include "server/test_server.h"

namespace quern::server {
namespace {

class TokenizeApi : public ::testing::Test {
 protected:
  // The error of a request that must be refused.
  Json refusal(const std::string& path, const std::string& body, int status = 400) {
    const TestReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, status) << path << ' ' << body;
    return reply.json()["error"];
  }
  nlohmann::json answer(const std::string& path, const std::string& body) {
    const TestReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, 200) << path << ' ' << body << ' ' << reply.body;
    return nlohmann::json::parse(reply.body);
  }

  TestServer server;
};

TEST_F(TokenizeApi, GivesOneTextsIds) {
  for (const char* path : {"/tokenize", "/v1/tokenize"}) {
    EXPECT_EQ(answer(path, R"({"model":"m","prompt":"ab"})"),
              nlohmann::json::parse(R"({"tokens":[97,98],"count":2,"max_model_len":1000})"));
  }
  EXPECT_EQ(answer("/tokenize", R"({"text":"a"})")["tokens"], nlohmann::json::array({97}));
  EXPECT_EQ(answer("/tokenize", R"({"prompt":""})"),
            nlohmann::json::parse(R"({"tokens":[],"count":0,"max_model_len":1000})"));
}

TEST_F(TokenizeApi, GivesListsForLists) {
  EXPECT_EQ(answer("/v1/tokenize", R"({"prompt":["ab","","c"]})"),
            nlohmann::json::parse(
                R"({"tokens":[[97,98],[],[99]],"count":[2,0,1],"max_model_len":1000})"));
  EXPECT_EQ(answer("/v1/tokenize", R"({"prompt":["ab"]})")["count"], nlohmann::json::array({2}));
  EXPECT_EQ(answer("/v1/tokenize", R"({"prompt":[]})")["tokens"], nlohmann::json::array());
}

TEST_F(TokenizeApi, TakesAConversation) {
  EXPECT_EQ(answer("/v1/tokenize", R"({"messages":[{"role":"user","content":"a"}]})")["count"], 1);
  EXPECT_EQ(refusal("/v1/tokenize", R"({"messages":[{"content":"a"}]})")["param"],
            "messages[0].role");
}

TEST_F(TokenizeApi, AsksForSpecialTokensAsTheFieldSays) {
  EXPECT_EQ(answer("/tokenize", R"({"prompt":"a","add_special_tokens":null})")["tokens"],
            nlohmann::json::array({97}));
  EXPECT_EQ(answer("/tokenize", R"({"prompt":"a","add_special_tokens":false})")["tokens"],
            nlohmann::json::array({97, 1}));
  EXPECT_EQ(answer("/tokenize", R"({"prompt":"a","add_special_tokens":true})")["tokens"],
            nlohmann::json::array({97, 2}));
}

TEST_F(TokenizeApi, NamesTheFieldAtFault) {
  const struct {
    const char *body, *param;
  } kBad[] = {
      {R"({})", "prompt"},
      {R"({"prompt":5})", "prompt"},
      {R"({"prompt":[1,2]})", "prompt"},
      {R"({"prompt":["a",null]})", "prompt"},
      {R"({"prompt":{"a":1}})", "prompt"},
      {R"({"text":[["a"]]})", "text"},
      {R"({"prompt":"a","text":"b"})", "text"},
      {R"({"prompt":"a","messages":[{"role":"user","content":"b"}]})", "messages"},
      {R"({"prompt":"a","add_special_tokens":"yes"})", "add_special_tokens"},
      {R"({"prompt":"a","return_token_strs":true})", "return_token_strs"},
      {R"({"prompt":"a","model":7})", "model"},
      {R"({"messages":[]})", "messages"},
  };
  for (const auto& bad : kBad) {
    EXPECT_EQ(refusal("/v1/tokenize", bad.body)["param"], bad.param) << bad.body;
  }
  EXPECT_EQ(refusal("/v1/tokenize", R"({"prompt":"a","model":"x"})", 404)["code"],
            "model_not_found");
}

TEST_F(TokenizeApi, GivesTextOfIds) {
  for (const char* path : {"/detokenize", "/v1/detokenize"}) {
    EXPECT_EQ(answer(path, R"({"tokens":[97,98]})"), nlohmann::json::parse(R"({"text":"ab"})"));
  }
  EXPECT_EQ(answer("/detokenize", R"({"tokens":[]})")["text"], "");
  EXPECT_EQ(answer("/detokenize", R"({"tokens":[[97],[],[98,99]]})"),
            nlohmann::json::parse(R"({"text":["a","","bc"]})"));
}

TEST_F(TokenizeApi, SkipsSpecialTokensUnlessAskedNotTo) {
  EXPECT_EQ(answer("/detokenize", R"({"tokens":[97,10]})")["text"], "a");
  EXPECT_EQ(answer("/detokenize", R"({"tokens":[97,10],"skip_special_tokens":true})")["text"], "a");
  EXPECT_EQ(answer("/detokenize", R"({"tokens":[97,10],"skip_special_tokens":false})")["text"],
            "a\n");
  EXPECT_EQ(
      answer("/detokenize", R"({"tokens":[[97,10],[10]],"skip_special_tokens":false})")["text"],
      nlohmann::json::array({"a\n", "\n"}));
}

TEST_F(TokenizeApi, NamesTheIdsAtFault) {
  const struct {
    const char *body, *param;
  } kBad[] = {
      {R"({})", "tokens"},
      {R"({"tokens":"97"})", "tokens"},
      {R"({"tokens":97})", "tokens"},
      {R"({"tokens":["a"]})", "tokens"},
      {R"({"tokens":[97,[98]]})", "tokens"},
      {R"({"tokens":[[97],98]})", "tokens[1]"},
      {R"({"tokens":[[97],[-1]]})", "tokens[1]"},
      {R"({"tokens":[97,-1]})", "tokens"},
      {R"({"tokens":[97,1.5]})", "tokens"},
      {R"({"tokens":[97,4294967296]})", "tokens"},
      {R"({"tokens":[97,300]})", "tokens"},
      {R"({"tokens":[[97],[97,300]]})", "tokens[1]"},
      {R"({"tokens":[97],"skip_special_tokens":1})", "skip_special_tokens"},
  };
  for (const auto& bad : kBad) {
    EXPECT_EQ(refusal("/v1/detokenize", bad.body)["param"], bad.param) << bad.body;
  }
}

}  // namespace
}  // namespace quern::server

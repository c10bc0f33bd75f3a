#include "server/control_api.h"

#include <gtest/gtest.h>

#include <thread>

#include "server/json_body.h"
#include "server/test_server.h"

namespace quern::server {
namespace {

class ControlApi : public testing::Test {
 protected:
  // A generating request on a connection of its own, which has begun.
  std::unique_ptr<TestClient> begun(const std::string& path, const std::string& body) {
    auto client = std::make_unique<TestClient>(server.port());
    const EngineStats before = server.engine().stats();
    client->post(path, body);
    while (server.engine().stats().requests_total == before.requests_total) {
      std::this_thread::yield();
    }
    return client;
  }
  std::string fault(const std::string& path, const std::string& body) {
    const TestReply reply = server.post(path, body);
    EXPECT_EQ(reply.status, 400) << path << ' ' << body;
    return reply.json()["error"]["param"].is_null()
               ? ""
               : reply.json()["error"]["param"].get<std::string>();
  }

  TestServer server;
};

constexpr const char* kEndless =
    R"({"text":"abc","rid":"%","sampling_params":{"max_new_tokens":1000000}})";

std::string endless(const std::string& rid) {
  std::string body = kEndless;
  return body.replace(body.find('%'), 1, rid);
}

TEST_F(ControlApi, EndsRequestsByTheBeginningOfTheirId) {
  const auto one = begun("/generate", endless("a-1"));
  const auto two = begun("/generate", endless("a-2"));
  const auto other = begun("/generate", endless("b-1"));
  EXPECT_EQ(server.post("/abort_request", R"({"rid":"a-"})").json()["aborted"], 2);
  for (const auto& client : {one.get(), two.get()}) {
    const TestReply reply = client->reply();
    ASSERT_EQ(reply.status, 200);
    EXPECT_EQ(reply.json()["meta_info"]["finish_reason"]["type"], "abort");
  }
  EXPECT_EQ(server.engine().stats().running, 1);
  EXPECT_EQ(server.post("/abort_request", R"({"rid":"nobody"})").json()["aborted"], 0);
  EXPECT_EQ(server.post("/abort_request", R"({"abort_all":true})").json()["aborted"], 1);
  EXPECT_EQ(other->reply().json()["meta_info"]["finish_reason"]["type"], "abort");
  EXPECT_TRUE(server.becomes_quiet());
}

TEST_F(ControlApi, TellsOpenAisClientsTheReason) {
  const auto whole = begun("/v1/completions", R"({"prompt":"abc","max_tokens":1000000,"rid":"w"})");
  const auto stream =
      begun("/v1/chat/completions",
            R"({"messages":[{"role":"user","content":"abc"}],"stream":true,"rid":"s"})");
  EXPECT_EQ(server.post("/abort_request", R"({"abort_all":true,"rid":""})").json()["aborted"], 2);
  const Json answer = whole->reply().json();
  EXPECT_EQ(answer["id"], "w");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "abort");
  const std::string frames = stream->reply().body;
  EXPECT_NE(frames.find(R"("finish_reason":"abort")"), frames.npos);
  EXPECT_NE(frames.find("data: [DONE]"), frames.npos);
}

TEST_F(ControlApi, PausesAndContinues) {
  EXPECT_EQ(server.post("/pause_generation", R"({"mode":"in_place"})").json()["status"], "ok");
  const auto client =
      begun("/generate", R"({"text":"abc","sampling_params":{"max_new_tokens":2}})");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(server.engine().stats().running, 1);  // unpaused it would have ended long ago
  EXPECT_EQ(server.post("/continue_generation", "").json()["status"], "ok");
  EXPECT_EQ(client->reply().json()["text"], "ab");

  const auto ended = begun("/generate", endless("x"));
  EXPECT_EQ(server.post("/pause_generation", "").status, 200);
  EXPECT_EQ(ended->reply().json()["meta_info"]["finish_reason"]["type"], "abort");
  EXPECT_EQ(server.post("/continue_generation", "{}").status, 200);
}

TEST_F(ControlApi, FlushesWhereNothingRuns) {
  EXPECT_EQ(server.post("/flush_cache", "").status, 200);
  EXPECT_EQ(server.get("/flush_cache").status, 200);
  const auto client = begun("/generate", endless("x"));
  TestReply reply = server.post("/flush_cache?timeout=0.05", "");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], "cache_in_use");
  std::thread ender([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    server.post("/abort_request", R"({"abort_all":true})");
  });
  EXPECT_EQ(server.post("/flush_cache?timeout=20", "").status, 200);
  ender.join();
}

TEST_F(ControlApi, NamesWhatIsBad) {
  EXPECT_EQ(fault("/abort_request", ""), "rid");
  EXPECT_EQ(fault("/abort_request", "{}"), "rid");
  EXPECT_EQ(fault("/abort_request", R"({"rid":""})"), "rid");
  EXPECT_EQ(fault("/abort_request", R"({"rid":5})"), "rid");
  EXPECT_EQ(fault("/abort_request", R"({"abort_all":"yes"})"), "abort_all");
  EXPECT_EQ(fault("/pause_generation", R"({"mode":"stop"})"), "mode");
  EXPECT_EQ(fault("/pause_generation", R"({"mode":1})"), "mode");
  EXPECT_EQ(fault("/pause_generation", "["), "");
  for (const char* bad : {"-1", "x", "1e9", "nan", "1s"}) {
    EXPECT_EQ(fault("/flush_cache?timeout=" + std::string(bad), ""), "timeout") << bad;
  }
  EXPECT_EQ(server.get("/abort_request").status, 405);
}

}  // namespace
}  // namespace quern::server

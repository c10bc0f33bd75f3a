// The transport: limits, keep-alive, pipelining, clients that leave, slow clients, shutdown.
#include "server/http_server.h"

#include <gtest/gtest.h>

#include <new>

#include "base/errors/base.h"
#include "base/errors/server.h"
#include "server/error_pages.h"
#include "server/test_server.h"

namespace quern::server {
namespace {

std::string completion(const std::string& prompt, int max_tokens, const std::string& more = "") {
  return R"({"model":"m","prompt":")" + prompt + R"(","max_tokens":)" + std::to_string(max_tokens) +
         more + "}";
}

TEST(HttpServer, AnswersRequestsOfOneConnectionInTurn) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.post("/v1/completions", completion("abc", 4));
    const TestReply reply = client.reply();
    ASSERT_EQ(reply.status, 200);
    EXPECT_EQ(reply.json()["choices"][0]["text"], "abca");
    EXPECT_EQ(reply.headers.at("Connection"), "keep-alive");
  }
}

TEST(HttpServer, AnswersPipelinedRequests) {
  TestServer server;
  TestClient client(server.port());
  client.post("/v1/completions", completion("abc", 50, R"(,"stream":true)"));
  client.post("/v1/completions", completion("xyz", 2));
  client.get("/health");
  EXPECT_TRUE(client.reply().body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(client.reply().json()["choices"][0]["text"], "xy");
  EXPECT_EQ(client.reply().status, 200);
}

TEST(HttpServer, StreamsWithoutChunksToHttp10) {
  TestServer server;
  TestClient client(server.port());
  const std::string body = completion("abc", 2, R"(,"stream":true)");
  client.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  std::string all;
  for (std::string part = client.more(); !part.empty(); part = client.more()) all += part;
  EXPECT_EQ(all.find("Transfer-Encoding"), all.npos);
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n"));
}

TEST(HttpServer, TakesChunkedBodiesAndExpectContinue) {
  TestServer server;
  TestClient client(server.port());
  const std::string body = completion("abc", 2);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" +
      body.substr(0, 5) + "\r\n" + fmt::format("{:x}", body.size() - 5) + "\r\n" + body.substr(5) +
      "\r\n0\r\n\r\n");
  EXPECT_EQ(client.reply().status, 200);
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.reply(false).status, 100);
  client.send(body);
  EXPECT_EQ(client.reply().status, 200);
}

TEST(HttpServer, RefusesWhatIsTooLarge) {
  ServerOptions options = test_options();
  options.max_body_bytes = 1000;
  TestServer server(options);
  const TestReply whole = server.post("/v1/completions", std::string(5000, ' '));
  EXPECT_EQ(whole.status, 413);
  EXPECT_EQ(whole.json()["error"]["code"], "body_too_large");

  TestClient chunked(server.port());
  chunked.send("POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
               std::string(2000, ' ') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.reply().status, 413);

  TestClient header(server.port());
  header.get("/health", "GET", "X: " + std::string(70'000, 'x') + "\r\n");
  EXPECT_EQ(header.reply().status, 431);
}

TEST(HttpServer, RefusesAHeadWithoutABody) {
  ServerOptions options = test_options();
  options.max_body_bytes = 1000;
  TestServer server(options);
  for (const auto& [status, rest] :
       {std::pair{"431", "X: " + std::string(70'000, 'x') + "\r\n\r\n"},
        std::pair{"400", std::string(" bad\r\n\r\n")},
        std::pair{"413", "Transfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, ' ') +
                             "\r\n0\r\n\r\n"}}) {
    TestClient client(server.port());
    client.send("HEAD /health HTTP/1.1\r\n" + rest);
    std::string all;
    for (std::string part = client.more(); !part.empty(); part = client.more()) all += part;
    EXPECT_EQ(all.substr(9, 3), status);
    EXPECT_NE(all.find("Content-Length: "), all.npos) << status;
    EXPECT_TRUE(all.ends_with("\r\n\r\n")) << all;
  }
}

// A 503 of the engine's is as temporary as one of the server's.
TEST(ErrorPages, TellWhenToTryAgain) {
  const auto retry_after = [](const Reply& reply) {
    for (const auto& [name, value] : reply.headers) {
      if (name == "Retry-After") return value;
    }
    return std::string();
  };
  TokenEvent event;
  event.finish_reason = FinishReason::kError;
  event.error_message = "x";
  event.error_http_status = 503;
  EXPECT_EQ(retry_after(error_reply(event)), "1");
  event.error_http_status = 500;
  EXPECT_EQ(retry_after(error_reply(event)), "");
  event = {};
  event.finish_reason = FinishReason::kCancelled;  // the server is being stopped
  EXPECT_EQ(error_reply(event).status, 503);
  EXPECT_EQ(retry_after(error_reply(event)), "1");
}

TEST(ErrorPages, SayWhatMemoryIsMissing) {
  try {
    throw std::bad_alloc();
  } catch (...) {
    EXPECT_EQ(current_error().message(),
              "Not enough memory for a request: the needed bytes could not be had.");
  }
}

TEST(HttpServer, RefusesWhatIsNotHttp) {
  TestServer server;
  for (const char* text : {"\x16\x03\x01 hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                           "GET /\xFF HTTP/1.1\r\n bad\r\n\r\n",
                           "POST / HTTP/1.1\r\n"
                           "Content-Length: -5\r\n\r\n"}) {
    TestClient client(server.port());
    client.send(text);
    const TestReply reply = client.reply();
    EXPECT_EQ(reply.status, 400) << text;
    EXPECT_EQ(reply.json()["error"]["code"], "malformed_http") << text;
  }
}

TEST(HttpServer, KnowsRoutesAndMethods) {
  TestServer server;
  EXPECT_EQ(server.get("/nowhere").status, 404);
  EXPECT_EQ(server.get("//v1/models").status, 404);
  EXPECT_EQ(server.get("/v1/completions").status, 405);
  EXPECT_EQ(server.get("/v1/completions").headers.at("Allow"), "POST, OPTIONS");
  EXPECT_EQ(server.get("/v1/completions", "OPTIONS").status, 204);
  EXPECT_EQ(server.get("/health", "DELETE").status, 405);
  const TestReply head = server.get("/v1/models", "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("Content-Length"), "0");
}

TEST(HttpServer, ChecksTheContentType) {
  TestServer server;
  const auto status = [&](const char* type) {
    return server
        .post("/v1/completions", completion("a", 1), std::string("Content-Type: ") + type + "\r\n")
        .status;
  };
  EXPECT_EQ(server.post("/v1/completions", completion("a", 1)).status, 200);
  EXPECT_EQ(status("application/json"), 200);
  EXPECT_EQ(status("Application/JSON; charset=\"UTF-8\""), 200);
  EXPECT_EQ(status("application/json; charset=latin1"), 415);
  EXPECT_EQ(status("text/plain"), 415);
  EXPECT_EQ(status("application/x-www-form-urlencoded"), 415);
}

TEST(HttpServer, GuardsEveryRouteButHealth) {
  ServerOptions options = test_options();
  options.api_key = "secret";
  TestServer server(options);
  for (const char* path : {"/", "/v1/models", "/v1/models/m", "/generate", "/server_info",
                           "//health", "/health/", "/v1/../health", "/nowhere", "/health%2e",
                           "/HEALTH", "/v1/models?api_key=secret", "/health_generate"}) {
    for (const char* method : {"GET", "HEAD", "OPTIONS", "POST"}) {
      EXPECT_EQ(server.get(path, method).status, 401) << method << path;
    }
  }
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/health", "OPTIONS").status, 401);
  const auto with = [&](const std::string& headers) {
    return server.get("/v1/models", "GET", headers).status;
  };
  EXPECT_EQ(with("Authorization: Bearer secret\r\n"), 200);
  EXPECT_EQ(with("authorization: bearer secret\r\n"), 200);
  for (const char* wrong : {"Bearer secre", "Bearer secrets", "Bearer", "Bearer ", "secret",
                            "Basic secret", "Bearer Secret", "Bearersecret"}) {
    EXPECT_EQ(with(std::string("Authorization: ") + wrong + "\r\n"), 401) << wrong;
  }
  EXPECT_EQ(with("Authorization: Bearer secret\r\nAuthorization: Bearer secret\r\n"), 401);
  EXPECT_EQ(with("X-Api-Key: secret\r\n"), 401);
  EXPECT_EQ(server.get("/v1/models").json()["error"]["code"], "invalid_api_key");
}

// Closing in any way frees the request, whether it runs or waits, streams or not.
TEST(HttpServer, CancelsTheRequestsOfClientsThatLeave) {
  TestServer server(test_options(), std::chrono::milliseconds(2), 1);
  for (const bool stream : {false, true}) {
    for (int way = 0; way < 3; ++way) {
      const std::int64_t before = server.engine().stats().aborted_total;
      TestClient first(server.port()), second(server.port());
      const std::string body = completion("abc", 1 << 30, stream ? R"(,"stream":true)" : "");
      first.post("/v1/completions", body);
      ASSERT_TRUE(server.becomes_busy(1));
      second.post("/generate", R"({"text":"waits","sampling_params":{"max_new_tokens":1000000}})");
      ASSERT_TRUE(server.becomes_busy(2));
      for (TestClient* client : {&second, &first}) {
        if (way == 0) client->close();
        if (way == 1) client->half_close();
        if (way == 2) client->reset();
      }
      EXPECT_TRUE(server.becomes_quiet()) << stream << way;
      EXPECT_EQ(server.engine().stats().aborted_total, before + 2) << stream << way;
    }
  }
  EXPECT_EQ(server.post("/v1/completions", completion("abc", 3)).status, 200);
}

TEST(HttpServer, CancelsEveryChoiceOfOneRequest) {
  TestServer server;
  TestClient client(server.port());
  client.post("/v1/completions", completion("abc", 1 << 30, R"(,"n":3,"stream":true)"));
  ASSERT_TRUE(server.becomes_busy(3));
  client.close();
  EXPECT_TRUE(server.becomes_quiet());
}

TEST(HttpServer, CancelsARequestWhoseClientDoesNotRead) {
  ServerOptions options = test_options();
  options.max_unread_bytes = 100'000;
  options.write_timeout = std::chrono::milliseconds(500);
  TestServer server(options, std::chrono::microseconds(20));
  TestClient client(server.port());
  // Its frames hold the whole text so far, so the sockets' buffers are soon full.
  client.post("/generate",
              R"({"text":"abc","stream":true,"sampling_params":{"max_new_tokens":1000000000}})");
  ASSERT_TRUE(server.becomes_busy(1));
  EXPECT_EQ(server.post("/v1/completions", completion("abc", 3)).status, 200);
  EXPECT_TRUE(server.becomes_quiet());
}

TEST(HttpServer, ClosesSilentAndHalfSentConnections) {
  ServerOptions options = test_options();
  options.header_timeout = std::chrono::milliseconds(100);
  options.idle_timeout = std::chrono::milliseconds(200);
  options.body_timeout = std::chrono::milliseconds(100);
  TestServer server(options);
  TestClient silent(server.port()), half_header(server.port()), half_body(server.port());
  half_header.send("GET /hea");
  half_body.send("POST /generate HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(half_header.more(), "");
  EXPECT_EQ(half_body.more(), "");
  EXPECT_EQ(silent.more(), "");
}

TEST(HttpServer, ClosesTheOldestIdleConnectionWhenFull) {
  ServerOptions options = test_options();
  options.max_connections = 3;
  TestServer server(options);
  TestClient first(server.port()), second(server.port());
  for (TestClient* client : {&first, &second}) {
    client->get("/health");
    ASSERT_EQ(client->reply().status, 200);
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(first.more(), "");
}

TEST(HttpServer, RefusesConnectionsWhenAllAreBusy) {
  ServerOptions options = test_options();
  options.max_connections = 2;
  TestServer server(options);
  TestClient first(server.port()), second(server.port());
  first.post("/v1/completions", completion("abc", 1 << 30));
  second.post("/v1/completions", completion("abc", 1 << 30));
  ASSERT_TRUE(server.becomes_busy(2));
  EXPECT_EQ(server.get("/health").status, 503);
}

TEST(HttpServer, SaysThatTheModelIsLoading) {
  const HttpServer server(test_options());
  TestClient client(server.port());
  client.get("/health");
  const TestReply reply = client.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.json()["error"]["code"], "model_loading");
}

TEST(HttpServer, RefusesAPortInUseAndABadAddress) {
  const HttpServer first(test_options());
  ServerOptions options = test_options();
  options.port = first.port();
  const auto id_of = [](const ServerOptions& wanted) {
    try {
      const HttpServer server(wanted);
    } catch (const Error& error) {
      return error.id();
    }
    return errors::kInternalError;
  };
  EXPECT_EQ(id_of(options), errors::kPortInUse);
  options.port = 0;
  options.host = "192.0.2.1";
  EXPECT_EQ(id_of(options), errors::kCannotListen);
  options.host = "not an address";
  EXPECT_EQ(id_of(options), errors::kCannotListen);
}

TEST(HttpServer, TurnsAnyExceptionIntoAnErrorOfTheCatalogue) {
  TestServer server;
  const TestReply reply = server.post("/v1/completions", completion("!break", 4));
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.json()["error"]["code"], "handler_failed");
  EXPECT_EQ(server.post("/v1/completions", completion("abc", 4)).status, 200);
}

TEST(HttpServer, FinishesWhatRunsWhenStopped) {
  TestServer server(test_options(), std::chrono::milliseconds(5));
  TestClient client(server.port()), waiting(server.port());
  client.post("/v1/completions", completion("abc", 40, R"(,"stream":true)"));
  waiting.get("/health");
  EXPECT_EQ(waiting.reply().status, 200);
  ASSERT_TRUE(server.becomes_busy(1));
  server.stop();
  EXPECT_TRUE(client.reply().body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(client.more(), "");
  EXPECT_EQ(waiting.more(), "");
  EXPECT_FALSE(TestClient(server.port()).connected());
}

TEST(HttpServer, EndsWhatOutlivesTheDrainLimit) {
  ServerOptions options = test_options();
  options.drain_limit = std::chrono::milliseconds(100);
  TestServer server(options);
  TestClient stream(server.port()), whole(server.port());
  stream.post("/v1/completions", completion("abc", 1 << 30, R"(,"stream":true)"));
  whole.post("/v1/completions", completion("abc", 1 << 30));
  ASSERT_TRUE(server.becomes_busy(2));
  server.stop();
  const TestReply cut = stream.reply();
  EXPECT_EQ(cut.status, 200);
  EXPECT_NE(cut.body.find(R"(data: {"error":)"), cut.body.npos);
  EXPECT_EQ(whole.reply().status, 503);
}

TEST(HttpServer, RefusesNewRequestsWhileDraining) {
  TestServer server(test_options(), std::chrono::milliseconds(5));
  TestClient running(server.port()), late(server.port()), probe(server.port());
  for (TestClient* client : {&late, &probe}) {
    client->get("/health");
    EXPECT_EQ(client->reply().status, 200);
  }
  running.post("/v1/completions", completion("abc", 100));
  ASSERT_TRUE(server.becomes_busy(1));
  std::thread stopping([&] { server.stop(); });
  while (TestClient(server.port()).connected()) std::this_thread::yield();
  late.post("/v1/completions", completion("abc", 3));
  const TestReply reply = late.reply();
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.json()["error"]["code"], "server_draining");
  probe.get("/health");
  TestReply health = probe.reply();
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.headers["Retry-After"], "1");
  stopping.join();
  EXPECT_EQ(running.reply().status, 200);
}

TEST(HttpServer, ServesFiveHundredStreamsAtOnce) {
  TestServer server(test_options(), std::chrono::milliseconds(1));
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 500; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    ASSERT_TRUE(
        clients.back()->post("/v1/completions", completion("abc", 32, R"(,"stream":true)")));
  }
  const std::string first = clients[0]->reply().body.substr(0, 10);
  EXPECT_EQ(first, "data: {\"id");
  for (int i = 1; i < 500; ++i) {
    const TestReply reply = clients[static_cast<size_t>(i)]->reply();
    ASSERT_EQ(reply.status, 200) << i;
    ASSERT_TRUE(reply.body.ends_with("data: [DONE]\n\n")) << i;
  }
}

}  // namespace
}  // namespace quern::server

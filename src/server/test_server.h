// A server over a FakeEngine on a free port, for the tests of this folder.
#pragma once

#include <thread>

#include "server/fake_engine.h"
#include "server/http_server.h"
#include "server/test_client.h"

namespace quern::server {

inline ServerOptions test_options() {
  ServerOptions options;
  options.port = 0;
  options.drain_limit = std::chrono::milliseconds(2000);
  return options;
}

class TestServer {
 public:
  explicit TestServer(const ServerOptions& options = test_options(),
                      std::chrono::microseconds step = std::chrono::microseconds(200),
                      size_t max_running = 100'000,
                      const EngineInfo& info = FakeEngine::usual_info())
      : server_(options),
        engine_(step, max_running, info),
        thread_([this] { server_.serve(engine_, false); }) {
    // serve() hands the engine over asynchronously.
    while (get("/health").status == 503) std::this_thread::yield();
  }
  ~TestServer() { stop(); }

  void stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  int port() const { return server_.port(); }
  HttpServer& server() { return server_; }
  FakeEngine& engine() { return engine_; }

  TestReply post(const std::string& path, const std::string& body,
                 const std::string& headers = "") const {
    TestClient client(port());
    client.post(path, body, headers);
    return client.reply();
  }
  TestReply get(const std::string& path, const std::string& method = "GET",
                const std::string& headers = "") const {
    TestClient client(port());
    client.get(path, method, headers);
    return client.reply(method != "HEAD");
  }

  // True when nothing runs or waits any more, within a generous limit.
  bool becomes_quiet() const {
    for (int i = 0; i < 2000; ++i) {
      const EngineStats stats = engine_.stats();
      if (stats.running + stats.queued == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  bool becomes_busy(std::int64_t count) const {
    for (int i = 0; i < 2000; ++i) {
      const EngineStats stats = engine_.stats();
      if (stats.running + stats.queued >= count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  HttpServer server_;
  FakeEngine engine_;
  std::thread thread_;
};

}  // namespace quern::server

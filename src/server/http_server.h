// The HTTP server: listens, holds the connections, serves an engine and shuts down in order. One
// I/O thread runs every connection as a coroutine (connection.cpp); a worker parses and tokenizes.
// Used by `quern serve` and by the tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "quern/engine.h"

namespace quern::server {

// The defaults are those of the command line too (cli/options.h).
struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 30000;     // 0: any free one
  std::string api_key;  // "": no guard
  std::uint64_t max_body_bytes = 32 << 20;
  std::uint32_t max_header_bytes = 64 << 10;
  size_t max_connections = 1024;
  size_t max_unread_bytes = 1 << 20;  // of one answer, before its client counts as gone
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{60'000};  // between the requests of a connection
  std::chrono::milliseconds write_timeout{30'000};
  std::chrono::milliseconds drain_limit{30'000};
};

class HttpServer {
 public:
  // Listens and starts to answer, with 503 until serve(). Throws: kPortInUse, kCannotListen.
  explicit HttpServer(const ServerOptions& options);
  // Closes every connection. Requires: serve() has returned.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;  // the real one
  // "http://127.0.0.1:30000"; with the loopback address where the server listens on all.
  std::string url() const;

  // Serves until stop(), or with `on_signals` SIGTERM or SIGINT; then takes no new connection,
  // finishes what runs within the drain limit and returns. A second signal ends the process.
  // Once. `engine` is not used after it returns, and must have ended its requests before the server
  // is destroyed.
  void serve(Engine& engine, bool on_signals);
  // The same for the error catalogue alone: /errors and /api/errors, without any engine.
  void serve_catalog(bool on_signals);
  // Ends serve() and serve_catalog(). Any thread.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quern::server

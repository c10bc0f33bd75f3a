// What the listener and its connections share. Lives on the I/O thread, but for the members that
// say otherwise. Included by http_server.cpp and connection.cpp only.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "quern/engine.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/request_registry.h"

namespace quern::server {

// A connection as the registry sees it.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  // Ends it as soon as its coroutine runs again.
  virtual void close() = 0;

  bool idle = true;  // no request is being read or answered
  std::chrono::steady_clock::time_point idle_since = std::chrono::steady_clock::now();
};

struct ServerCore {
  explicit ServerCore(const ServerOptions& given) : options(given) {}

  const ServerOptions options;
  std::string url;
  std::set<OpenConnection*> connections;
  Engine* engine = nullptr;  // null while loading and after serve()
  std::unique_ptr<Metrics> metrics;  // as long as there was an engine
  RequestRegistry requests;  // any thread
  bool draining = false;
  bool catalog_only = false;  // there will be no engine
  std::atomic<int> busy = 0;  // connections that are not idle; any thread

  boost::asio::thread_pool workers{2};  // parse and tokenize, which may take long
  // The last member: its destruction ends the connections, which use the others.
  boost::asio::io_context io{1};
};

// Serves one accepted connection until it ends. I/O thread. `core` outlives the connection.
void start_connection(boost::asio::ip::tcp::socket socket, ServerCore& core);

}  // namespace quern::server

#include "server/http_server.h"

#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/errors/server.h"
#include "base/log.h"
#include "server/error_pages.h"
#include "server/http_wire.h"
#include "server/server_core.h"

namespace quern::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{50};  // after a failure such as too many files
constexpr std::chrono::seconds kLastWrites{5};         // for answers that are ready at shutdown
constexpr std::chrono::milliseconds kPoll{5};

// Each connection is a file, and the usual soft limit of 1024 is less than a busy server has.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

[[noreturn]] void cannot_listen(const ServerOptions& options, const error_code& error) {
  if (error == asio::error::address_in_use) {
    throw Error(errors::kPortInUse,
                {{"host", options.host},
                 {"port", options.port},
                 {"param", "--port"},
                 {"hint",
                  "Stop the program that listens there, or choose another port: --port N.\n"
                  "With --port 0 the system picks a free one."}});
  }
  throw Error(errors::kCannotListen, {{"host", options.host},
                                      {"port", options.port},
                                      {"reason", error.message()},
                                      {"param", "--host"}});
}

tcp::acceptor listen(asio::io_context& io, const ServerOptions& options) {
  error_code error;
  tcp::resolver resolver(io);
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    cannot_listen(options, error ? error : make_error_code(asio::error::host_not_found));
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) cannot_listen(options, error);
  return acceptor;
}

std::string url_of(const tcp::endpoint& endpoint) {
  asio::ip::address address = endpoint.address();
  if (address.is_unspecified() && address.is_v4()) address = asio::ip::address_v4::loopback();
  if (address.is_unspecified() && address.is_v6()) address = asio::ip::address_v6::loopback();
  return address.is_v6() ? fmt::format("http://[{}]:{}", address.to_string(), endpoint.port())
                         : fmt::format("http://{}:{}", address.to_string(), endpoint.port());
}

}  // namespace

struct HttpServer::Impl {
  explicit Impl(const ServerOptions& options)
      : core(options), acceptor(listen(core.io, options)), signals(core.io) {
    port = acceptor.local_endpoint().port();
    core.url = url_of(acceptor.local_endpoint());
    asio::co_spawn(core.io, accept(), asio::detached);
    thread = std::thread([this] { run_io(); });
  }

  ~Impl() {
    core.workers.join();
    core.io.stop();
    thread.join();
  }

  void run_io() {
    while (!core.io.stopped()) {
      try {
        core.io.run();
      } catch (const std::exception& failure) {
        log().error("The I/O thread caught: {}", valid_utf8(failure.what()));
      }
    }
  }

  asio::awaitable<void> accept() {
    while (acceptor.is_open()) {
      error_code error;
      tcp::socket socket =
          co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted) co_return;
      if (error) {
        close_oldest_idle();
        asio::steady_timer pause(core.io, kAcceptPause);
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      take(std::move(socket));
    }
  }

  // Whoever has connected by now is told that the server ends; a closed listener would reset it.
  void take_last_connections() {
    error_code error;
    acceptor.non_blocking(true, error);
    while (!error) {
      tcp::socket socket(core.io);
      acceptor.accept(socket, error);
      if (!error) take(std::move(socket));
    }
    acceptor.close(error);
  }

  void take(tcp::socket socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (core.connections.size() >= core.options.max_connections && !close_oldest_idle()) {
      refuse(std::move(socket));
    } else {
      start_connection(std::move(socket), core);
    }
  }

  bool close_oldest_idle() {
    OpenConnection* oldest = nullptr;
    for (OpenConnection* connection : core.connections) {
      if (!connection->idle) continue;
      if (!oldest || connection->idle_since < oldest->idle_since) oldest = connection;
    }
    if (!oldest) return false;
    oldest->idle_since = std::chrono::steady_clock::time_point::max();
    oldest->close();
    return true;
  }

  // Writes what fits into the socket's empty buffer, which is all of it, and closes.
  void refuse(tcp::socket socket) {
    const Error error(errors::kTooManyConnections, {{"limit", core.options.max_connections}});
    error_code ignored;
    socket.non_blocking(true, ignored);
    asio::write(socket, asio::buffer(reply_text(error_reply(error), false, false)), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  // Runs `task` on the I/O thread and waits for it.
  template <typename Task>
  void on_io(Task task) {
    std::promise<void> done;
    asio::post(core.io, [&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  void wait_for_signals() {
    signals.add(SIGTERM);
    signals.add(SIGINT);
    signals.async_wait([this](error_code error, int) {
      if (error) return;
      log().info("Finishing what runs; a second signal ends at once.");
      signals.clear();  // gives both signals their default effect back
      stop();
    });
  }

  void serve(Engine* engine, bool on_signals);

  void stop() {
    if (!stopped.exchange(true)) stop_requested.set_value();
  }

  ServerCore core;
  // Keeps the I/O thread when nothing is open, for serve()'s last tasks.
  asio::executor_work_guard<asio::io_context::executor_type> keep_running =
      asio::make_work_guard(core.io);
  tcp::acceptor acceptor;
  asio::signal_set signals;
  int port = 0;
  std::thread thread;
  std::atomic<bool> stopped = false;
  std::promise<void> stop_requested;
};

HttpServer::HttpServer(const ServerOptions& options) {
  raise_file_limit();
  impl_ = std::make_unique<Impl>(options);
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port; }

std::string HttpServer::url() const { return impl_->core.url; }

void HttpServer::stop() { impl_->stop(); }

void HttpServer::serve(Engine& engine, bool on_signals) { impl_->serve(&engine, on_signals); }

void HttpServer::serve_catalog(bool on_signals) { impl_->serve(nullptr, on_signals); }

// `engine` is null where only the catalogue is served.
void HttpServer::Impl::serve(Engine* engine, bool on_signals) {
  Impl& server = *this;
  server.on_io([&] {
    core.engine = engine;
    if (engine) core.metrics = std::make_unique<Metrics>(engine->info().served_model_name);
    core.catalog_only = engine == nullptr;
    if (on_signals) server.wait_for_signals();
  });
  server.stop_requested.get_future().wait();
  server.on_io([&] {
    core.draining = true;
    server.take_last_connections();
    error_code ignored;
    server.signals.cancel(ignored);
  });
  if (engine) engine->drain(core.options.drain_limit);
  const auto deadline = std::chrono::steady_clock::now() + kLastWrites;
  do {
    std::this_thread::sleep_for(kPoll);  // at least once: the last connections begin to be read
  } while (core.busy > 0 && std::chrono::steady_clock::now() < deadline);
  core.workers.join();
  server.on_io([&] {
    for (OpenConnection* connection : core.connections) connection->close();
    core.engine = nullptr;
  });
}

}  // namespace quern::server

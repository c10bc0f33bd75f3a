// One connection as a coroutine: reads requests within limits, answers them one after the other,
// and watches for the client leaving while an answer is being made.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <memory>
#include <optional>

#include "base/errors/server.h"
#include "base/log.h"
#include "server/catalog_pages.h"
#include "server/control_api.h"
#include "server/error_pages.h"
#include "server/exchange.h"
#include "server/http_wire.h"
#include "server/native_api.h"
#include "server/openai_api.h"
#include "server/pages.h"
#include "server/request_checks.h"
#include "server/server_core.h"
#include "server/sse.h"

namespace quern::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::use_awaitable;
using boost::system::error_code;
using Parser = http::request_parser<http::string_body>;

constexpr size_t kReadBytes = 16 << 10;
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::chrono::milliseconds kFlushPoll{20};
constexpr std::chrono::milliseconds kEndPoll{100};

std::unique_ptr<Generation> read_generation(const Route& route, const HttpRequest& request,
                                            const EngineInfo& info) {
  switch (route.action) {
    case Action::kChatCompletion: return read_chat_completion(request.body, info);
    case Action::kCompletion: return read_completion(request.body, info);
    default: return read_generate(request.body, info);
  }
}

HttpRequest read_head(const http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string_view target(message.target().data(), message.target().size());
  const size_t mark = std::min(target.find('?'), target.size());
  request.path = std::string(target.substr(0, mark));
  request.query = std::string(target.substr(std::min(mark + 1, target.size())));
  if (const auto type = message.find(http::field::content_type); type != message.end()) {
    request.has_content_type = true;
    request.content_type = std::string(type->value());
  }
  const auto [begin, end] = message.equal_range(http::field::authorization);
  for (auto field = begin; field != end; ++field) {
    request.authorization.emplace_back(field->value());
  }
  return request;
}

class Connection : public OpenConnection, public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket socket, ServerCore& core)
      : stream_(std::move(socket)), core_(core) {
    core_.connections.insert(this);
  }

  ~Connection() override {
    set_idle(true);
    core_.connections.erase(this);
  }

  void close() override {
    keep_alive_ = false;
    error_code ignored;
    stream_.socket().close(ignored);
  }

  awaitable<void> run() {
    while (keep_alive_) {
      set_idle(true);
      const bool arrived = co_await await_bytes();
      if (!arrived) co_return;
      set_idle(false);
      co_await serve_one();
    }
    set_idle(true);
    co_await linger();
  }

 private:
  void set_idle(bool now) {
    if (idle == now) return;
    idle = now;
    idle_since = std::chrono::steady_clock::now();
    core_.busy += now ? -1 : 1;
  }

  // False where the connection ended before a request began.
  awaitable<bool> await_bytes() {
    if (buffer_.size() > 0) co_return true;
    error_code error;
    stream_.expires_after(core_.options.idle_timeout);
    const auto space = buffer_.prepare(kReadBytes);
    const size_t count =
        co_await stream_.async_read_some(space, asio::redirect_error(use_awaitable, error));
    buffer_.commit(count);
    co_return !error;
  }

  // A close with bytes unread would reset the connection and could take the answer with it.
  awaitable<void> linger() {
    error_code error;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    stream_.expires_after(kLingerTime);
    while (!error) {
      buffer_.clear();
      const auto space = buffer_.prepare(kReadBytes);
      co_await stream_.async_read_some(space, asio::redirect_error(use_awaitable, error));
    }
  }

  awaitable<void> write(std::string text) {
    stream_.expires_after(core_.options.write_timeout);
    co_await asio::async_write(stream_, asio::buffer(text), use_awaitable);
  }

  awaitable<void> answer(const HttpRequest& request, Reply reply) {
    log().debug("{} {} {}", request.method, valid_utf8(request.path), reply.status);
    co_await write(reply_text(reply, keep_alive_, request.method == "HEAD"));
  }

  awaitable<void> serve_one() {
    Parser parser;
    parser.header_limit(core_.options.max_header_bytes);
    parser.body_limit(boost::none);
    error_code error;
    stream_.expires_after(core_.options.header_timeout);
    co_await http::async_read_header(stream_, buffer_, parser,
                                     asio::redirect_error(use_awaitable, error));
    if (error) {
      co_await refuse_unreadable(error, parser.get().method() == http::verb::head);
      co_return;
    }
    HttpRequest request = read_head(parser.get());
    keep_alive_ = keep_alive_ && parser.get().keep_alive() && !core_.draining;
    const Route* route = nullptr;
    const CheckContext context{core_.options, core_.engine != nullptr, core_.draining,
                               core_.catalog_only};
    if (auto early = check_head(request, parser.content_length().value_or(0), context, &route)) {
      keep_alive_ = keep_alive_ && parser.is_done();
      co_await answer(request, std::move(*early));
      co_return;
    }
    co_await read_body(&parser, &error);
    if (error) {
      co_await refuse_unreadable(error, parser.get().method() == http::verb::head);
      co_return;
    }
    request.body = std::move(parser.get().body());
    if (route->generates()) {
      co_await generate(*route, request, parser.get().version() >= 11);
    } else if (route->action == Action::kFlushCache) {
      Reply reply = co_await flush(request);
      co_await answer(request, std::move(reply));
    } else {
      Reply reply = co_await make_page(*route, request);
      co_await answer(request, std::move(reply));
    }
  }

  awaitable<void> read_body(Parser* parser, error_code* error) {
    parser->body_limit(core_.options.max_body_bytes);
    if (beast::iequals(parser->get()[http::field::expect], "100-continue")) {
      co_await write("HTTP/1.1 100 Continue\r\n\r\n");
    }
    stream_.expires_after(core_.options.body_timeout);
    if (!parser->is_done()) {
      co_await http::async_read(stream_, buffer_, *parser,
                                asio::redirect_error(use_awaitable, *error));
    }
  }

  awaitable<void> refuse_unreadable(error_code error, bool head_only) {
    keep_alive_ = false;
    std::optional<Error> refusal;
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      refusal.emplace(errors::kHeaderTooLarge,
                      std::vector<ErrorField>{{"limit", core_.options.max_header_bytes}});
    } else if (error == http::error::body_limit) {
      refusal.emplace(errors::kBodyTooLarge,
                      std::vector<ErrorField>{{"limit", core_.options.max_body_bytes}});
    } else if (error.category() == make_error_code(http::error::end_of_stream).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      refusal.emplace(errors::kMalformedHttp, std::vector<ErrorField>{{"reason", error.message()}});
    }
    if (refusal) {
      co_await write(reply_text(error_reply(*refusal), false, head_only));
    } else {
      close();  // it timed out or the client left in the middle of a request
    }
  }

  ServerFacts facts() const { return {core_.url, core_.draining, !core_.options.api_key.empty()}; }

  Reply metrics_reply() const {
    Reply reply;
    reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
    reply.body = core_.metrics->exposition(core_.engine->info(), core_.engine->stats());
    return reply;
  }

  awaitable<Reply> make_page(const Route& route, const HttpRequest& request) {
    auto make = [this, &route, &request, engine = core_.engine, facts = facts()] {
      try {
        if (route.is_catalog()) return catalog_reply(route, request);
        if (route.action == Action::kMetrics) return metrics_reply();
        if (route.is_control()) return control_reply(route, request, *engine);
        return page(route, request, *engine, facts);
      } catch (...) {
        return error_reply(current_error());
      }
    };
    if (!route.takes_body()) co_return make();
    co_return co_await on_worker(std::move(make));
  }

  Reply control_reply(const Route& route, const HttpRequest& request, Engine& engine) {
    if (route.action == Action::kAbortRequest) return abort_reply(request.body, core_.requests);
    if (route.action == Action::kContinueGeneration) return continue_reply(engine);
    return pause_reply(request.body, core_.requests, engine);
  }

  // Asks again and again, so that no worker is held up by requests that still run.
  awaitable<Reply> flush(const HttpRequest& request) {
    auto deadline = std::chrono::steady_clock::now();
    std::optional<Reply> refusal;
    try {
      deadline += flush_limit(request.query);
    } catch (...) {
      refusal = error_reply(current_error());
    }
    if (refusal) co_return std::move(*refusal);
    while (core_.engine != nullptr) {
      const bool flushed = co_await on_worker(
          [engine = core_.engine] { return engine->flush_cache(std::chrono::milliseconds(0)); });
      if (flushed || core_.draining || std::chrono::steady_clock::now() >= deadline) {
        co_return flush_reply(flushed);
      }
      asio::steady_timer pause(stream_.get_executor(), kFlushPoll);
      co_await pause.async_wait(use_awaitable);
    }
    co_return flush_reply(false);
  }

  // Runs `work`, which must not throw, on a worker thread. What it refers to must live in the
  // awaiting coroutine.
  template <typename Work>
  awaitable<std::invoke_result_t<Work>> on_worker(Work work) {
    auto task = [work = std::move(work)]() mutable -> awaitable<std::invoke_result_t<Work>> {
      co_return work();
    };
    co_return co_await asio::co_spawn(core_.workers, std::move(task), use_awaitable);
  }

  // Cancels what still runs when the coroutine is left, by whatever way.
  struct AbortGuard {
    const ServerCore& core;
    std::shared_ptr<Exchange> exchange;
    ~AbortGuard() {
      if (exchange && core.engine) exchange->abort();
    }
  };

  awaitable<void> generate(const Route& route, const HttpRequest& request, bool can_chunk) {
    auto exchange =
        std::make_shared<Exchange>(stream_.get_executor(), core_.options.max_unread_bytes);
    AbortGuard guard{core_, exchange};
    Metrics::Timer timer(*core_.metrics);
    watched_ = exchange;
    watch(exchange);
    std::unique_ptr<Generation> generation;
    size_t choices = 0;
    std::optional<RequestRegistry::Entry> entry;
    auto begin = [&, &engine = *core_.engine]() -> std::optional<Reply> {
      try {
        generation = read_generation(route, request, engine.info());
        choices = generation->requests.size();
        entry.emplace(core_.requests, generation->id, exchange);
        exchange->submit(engine, std::move(generation->requests));
        return std::nullopt;
      } catch (...) {
        return error_reply(current_error(), generation ? generation->prompt_param : "");
      }
    };
    std::optional<Reply> reply = co_await on_worker(std::move(begin));
    if (!reply) {
      stream_is_chunked_ = can_chunk;
      if (generation->stream && !can_chunk) keep_alive_ = false;
      reply = co_await relay(generation.get(), exchange.get(), choices, &timer);
      if (!exchange->aborted() && (!reply || reply->status == 200)) guard.exchange = nullptr;
    }
    const bool gone = exchange->aborted() && !reply;
    unwatch();
    if (gone) {
      close();
    } else if (reply) {
      co_await answer(request, std::move(*reply));
    }
  }

  // Passes events on until all choices ended. Returns the reply that is still to be written: the
  // answer or an error; nothing after a stream, or where the exchange was aborted.
  awaitable<std::optional<Reply>> relay(Generation* generation, Exchange* exchange, size_t choices,
                                        Metrics::Timer* timer) {
    bool begun = false;
    while (choices > 0) {
      co_await exchange->wait();
      if (exchange->aborted()) co_return std::nullopt;
      std::optional<TokenEvent> failed;
      for (auto& [choice, event] : exchange->take()) {
        const bool cancelled = event.finish_reason == FinishReason::kCancelled;
        if (event.finish_reason == FinishReason::kError || (cancelled && !exchange->ended())) {
          failed = std::move(event);
          break;
        }
        if (!cancelled) timer->add(choice, event);
        generation->add(choice, event);
        if (event.finish_reason != FinishReason::kNone) --choices;
      }
      if (failed && !begun) co_return error_reply(*failed);
      if (!generation->stream) continue;
      std::string frames = generation->frames();
      if (failed) {
        keep_alive_ = false;
        frames += sse_event(error_body(*failed));
      } else if (choices == 0) {
        frames += generation->last_frames();
      }
      if (frames.empty()) continue;
      const bool ends = failed || choices == 0;
      std::string text = begun ? "" : stream_head(keep_alive_, stream_is_chunked_);
      text += stream_part(frames, stream_is_chunked_, ends);
      begun = true;
      co_await write(std::move(text));
      if (failed) {
        exchange->end();  // the other choices
        co_return std::nullopt;
      }
    }
    if (generation->stream) co_return std::nullopt;
    Reply reply;
    reply.body = generation->body();
    co_return reply;
  }

  // A read would swallow pipelined bytes, so this waits for readability and peeks: no bytes means
  // that the client closed or half-closed, bytes that its next request is there already. From then
  // on the socket is always readable, so that its end is looked for now and then.
  void watch(std::shared_ptr<Exchange> exchange) {
    stream_.socket().async_wait(
        asio::ip::tcp::socket::wait_read, [self = shared_from_this(), exchange](error_code error) {
          if (error || self->watched_ != exchange) return;
          char byte = 0;
          const ssize_t count =
              recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
          if (count > 0) return self->look_for_end(exchange);
          if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
            self->watch(exchange);
            return;
          }
          exchange->abort();
        });
  }

  void look_for_end(std::shared_ptr<Exchange> exchange) {
    pollfd state{stream_.socket().native_handle(), POLLRDHUP, 0};
    if (poll(&state, 1, 0) > 0) return exchange->abort();
    look_again_.expires_after(kEndPoll);
    look_again_.async_wait([self = shared_from_this(), exchange](error_code error) {
      if (!error && self->watched_ == exchange) self->look_for_end(exchange);
    });
  }

  void unwatch() {
    watched_ = nullptr;
    look_again_.cancel();
    error_code ignored;
    stream_.socket().cancel(ignored);
  }

  beast::tcp_stream stream_;
  ServerCore& core_;
  beast::flat_buffer buffer_;  // what was read and not yet parsed: pipelined requests
  bool keep_alive_ = true;
  bool stream_is_chunked_ = true;
  asio::steady_timer look_again_{stream_.get_executor()};
  std::shared_ptr<Exchange> watched_;  // shared with the engine's sinks, see exchange.h
};

}  // namespace

void start_connection(asio::ip::tcp::socket socket, ServerCore& core) {
  auto connection = std::make_shared<Connection>(std::move(socket), core);
  asio::co_spawn(
      core.io, [connection]() -> awaitable<void> { return connection->run(); },
      [connection](std::exception_ptr failure) {
        try {
          if (failure) std::rethrow_exception(failure);
        } catch (const boost::system::system_error&) {
          // The client left or was too slow: nobody is there to be told.
        } catch (const std::exception& other) {
          log().error("A connection failed: {}", valid_utf8(other.what()));
        }
      });
}

}  // namespace quern::server

#include "load/http_client.h"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cctype>
#include <charconv>

namespace quern::load {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::uint32_t kMaxHeaderBytes = 64 << 10;

std::string lower(std::string_view text) {
  std::string made;
  for (const char c : text) made += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return made;
}

std::string words_of(const error_code& error) {
  if (error == beast::error::timeout) return "it did not answer in time";
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error == asio::error::eof || error == asio::error::connection_reset ||
      error == asio::error::broken_pipe) {
    return "it closed the connection before its answer was complete";
  }
  if (error == asio::error::connection_refused) return "the connection was refused";
  if (error.category() == make_error_code(http::error::end_of_stream).category()) {
    return "its answer is not valid HTTP: " + error.message();
  }
  return error.message();
}

}  // namespace

struct HttpClient::Connection {
  explicit Connection(asio::io_context& io) : stream(io) {}
  beast::tcp_stream stream;
  beast::flat_buffer buffer;
  std::array<char, 16384> piece{};
  bool used = false;  // it has answered before
};

std::optional<Url> parse_url(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  if (!lower(text.substr(0, kScheme.size())).starts_with(kScheme)) return std::nullopt;
  text.remove_prefix(kScheme.size());
  Url url;
  const size_t slash = std::min(text.find('/'), text.size());
  std::string_view place = text.substr(0, slash);
  url.prefix = std::string(text.substr(slash));
  while (url.prefix.ends_with('/')) url.prefix.pop_back();
  const size_t bracket = place.find(']');
  const size_t colon = place.find(':', bracket == place.npos ? 0 : bracket);
  if (colon != place.npos) {
    const std::string_view port = place.substr(colon + 1);
    int number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535) {
      return std::nullopt;
    }
    url.port = std::string(port);
    place = place.substr(0, colon);
  }
  if (place.starts_with('[') && place.ends_with(']')) place = place.substr(1, place.size() - 2);
  for (const std::string_view part : {place, std::string_view(url.prefix)}) {
    for (const char c : part) {
      if (static_cast<unsigned char>(c) <= ' ' || c == '?' || c == '#' || c == '@') {
        return std::nullopt;
      }
    }
  }
  if (place.empty()) return std::nullopt;
  url.host = std::string(place);
  return url;
}

HttpClient::HttpClient(asio::io_context& io, Url url, std::string api_key)
    : io_(io), url_(std::move(url)), api_key_(std::move(api_key)) {}

HttpClient::~HttpClient() = default;

asio::awaitable<std::unique_ptr<HttpClient::Connection>> HttpClient::connect(
    std::chrono::steady_clock::time_point deadline, HttpOutcome* outcome) {
  auto made = std::make_unique<Connection>(io_);
  error_code error;
  tcp::resolver resolver(io_);
  const auto found = co_await resolver.async_resolve(url_.host, url_.port,
                                                     asio::redirect_error(use_awaitable, error));
  if (!error) {
    made->stream.expires_at(deadline);
    co_await made->stream.async_connect(found, asio::redirect_error(use_awaitable, error));
  }
  if (error) {
    outcome->unreachable = true;
    outcome->failure = words_of(error);
    co_return nullptr;
  }
  made->stream.socket().set_option(tcp::no_delay(true), error);
  co_return made;
}

// False where the connection is of no further use. `began`: the first byte of an answer came.
asio::awaitable<bool> HttpClient::exchange(Connection& connection, const HttpRequest& request,
                                           const OnBody& on_body, HttpOutcome* outcome,
                                           bool* began) {
  error_code error;
  const auto broken = [&] {
    if (!error) return false;
    outcome->failure = words_of(error);
    return true;
  };
  http::request<http::string_body> message(http::verb::get, url_.prefix + request.path, 11);
  message.method_string(request.method);
  message.set(http::field::host, url_.host + ":" + url_.port);
  message.set(http::field::accept, "text/event-stream, application/json");
  if (!api_key_.empty()) message.set(http::field::authorization, "Bearer " + api_key_);
  if (!request.body.empty()) message.set(http::field::content_type, "application/json");
  message.body() = request.body;
  message.prepare_payload();
  co_await http::async_write(connection.stream, message,
                             asio::redirect_error(use_awaitable, error));
  if (broken()) co_return false;

  http::response_parser<http::buffer_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(boost::none);  // the reader of the body bounds it
  co_await http::async_read_header(connection.stream, connection.buffer, parser,
                                   asio::redirect_error(use_awaitable, error));
  *began = parser.got_some();
  if (broken()) co_return false;
  outcome->status = static_cast<int>(parser.get().result_int());
  outcome->content_type = lower(parser.get()[http::field::content_type]);
  while (!parser.is_done()) {
    http::buffer_body::value_type& body = parser.get().body();
    body.data = connection.piece.data();
    body.size = connection.piece.size();
    body.more = true;
    co_await http::async_read_some(connection.stream, connection.buffer, parser,
                                   asio::redirect_error(use_awaitable, error));
    if (error == http::error::need_buffer) error = {};
    const std::string_view piece(connection.piece.data(), connection.piece.size() - body.size);
    if (outcome->status == 200) {
      if (!piece.empty() && !on_body(*outcome, piece)) co_return false;
    } else {
      outcome->error_body += piece;
      if (outcome->error_body.size() > kMaxErrorBody) {
        outcome->error_body.resize(kMaxErrorBody);
        co_return false;
      }
    }
    if (broken()) co_return false;
  }
  co_return parser.get().keep_alive();
}

asio::awaitable<HttpOutcome> HttpClient::send(HttpRequest request, std::chrono::seconds timeout,
                                              OnBody on_body) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    HttpOutcome outcome;
    std::unique_ptr<Connection> connection;
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    } else {
      connection = co_await connect(deadline, &outcome);
      if (!connection) co_return outcome;
    }
    connection->stream.expires_at(deadline);
    bool began = false;
    const bool again = co_await exchange(*connection, request, on_body, &outcome, &began);
    // A kept connection may have been closed by the server meanwhile: that is no failure.
    if (!outcome.failure.empty() && connection->used && !began &&
        std::chrono::steady_clock::now() < deadline) {
      continue;
    }
    if (again) {
      connection->used = true;
      connection->stream.expires_never();
      idle_.push_back(std::move(connection));
    }
    co_return outcome;
  }
}

}  // namespace quern::load

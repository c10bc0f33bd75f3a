// An HTTP/1.1 client for many requests at once on one thread: connections are kept and used again,
// bodies are handed on as they come. Failures are words, not exceptions. Used by the load's runner.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::load {

// http://host:port/prefix
struct Url {
  std::string host, port = "80", prefix;  // the prefix without a slash at its end
};
// Nullopt where it is no http URL.
std::optional<Url> parse_url(std::string_view text);

struct HttpRequest {
  std::string_view method;
  std::string path;
  std::string body;
};

struct HttpOutcome {
  std::string failure;       // "": an answer came
  bool unreachable = false;  // no connection could be made
  int status = 0;
  std::string content_type;  // in lower case
  // Up to kMaxErrorBody bytes of an answer that is not 200.
  std::string error_body;
};
inline constexpr std::size_t kMaxErrorBody = 64 << 10;

class HttpClient {
 public:
  HttpClient(boost::asio::io_context& io, Url url, std::string api_key);
  ~HttpClient();

  // `on_body` takes pieces of the body of a 200 answer, in order; where it returns false the rest
  // is not read and the connection is closed. `on_head` sees status and content type before.
  using OnBody = std::function<bool(const HttpOutcome& head, std::string_view piece)>;
  boost::asio::awaitable<HttpOutcome> send(HttpRequest request, std::chrono::seconds timeout,
                                           OnBody on_body);

 private:
  struct Connection;
  boost::asio::awaitable<std::unique_ptr<Connection>> connect(
      std::chrono::steady_clock::time_point deadline, HttpOutcome* outcome);
  boost::asio::awaitable<bool> exchange(Connection& connection, const HttpRequest& request,
                                        const OnBody& on_body, HttpOutcome* outcome, bool* began);

  boost::asio::io_context& io_;
  Url url_;
  std::string api_key_;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace quern::load

#include "server/http_wire.h"

#include <fmt/format.h>

namespace quern::server {
namespace {

std::string_view connection_word(bool keep_alive) { return keep_alive ? "keep-alive" : "close"; }

// A value from a client must not be able to begin a header of its own.
std::string one_line(std::string_view value) {
  std::string line;
  for (const char c : value) line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return line;
}

}  // namespace

std::string_view status_words(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 302: return "Found";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

std::string reply_text(const Reply& reply, bool keep_alive, bool head_only) {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\nServer: quern\r\nConnection: {}\r\n", reply.status,
                  status_words(reply.status), connection_word(keep_alive));
  if (reply.status != 204) {
    text += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", reply.content_type,
                        reply.body.size());
  }
  for (const auto& [name, value] : reply.headers) {
    text += fmt::format("{}: {}\r\n", name, one_line(value));
  }
  text += "\r\n";
  if (!head_only) text += reply.body;
  return text;
}

std::string stream_head(bool keep_alive, bool chunked) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\nServer: quern\r\nConnection: {}\r\n"
      "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n{}\r\n",
      connection_word(keep_alive), chunked ? "Transfer-Encoding: chunked\r\n" : "");
}

std::string stream_part(std::string_view frames, bool chunked, bool ends) {
  if (!chunked) return std::string(frames);
  std::string text;
  if (!frames.empty()) text = fmt::format("{:x}\r\n{}\r\n", frames.size(), frames);
  if (ends) text += "0\r\n\r\n";
  return text;
}

}  // namespace quern::server

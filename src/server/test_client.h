// A blocking HTTP client over plain sockets that sends exactly what a test says, for the tests of
// this folder.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace quern::server {

struct TestReply {
  int status = 0;  // 0: no answer came
  std::map<std::string, std::string> headers;
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
};

class TestClient {
 public:
  explicit TestClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{20, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  bool post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return send("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
  }
  bool get(const std::string& path, const std::string& method = "GET",
           const std::string& headers = "") {
    return send(method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
  }

  void half_close() { shutdown(socket_, SHUT_WR); }
  void reset() {
    const linger hard{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // More bytes of the connection; "" at its end or after the time limit.
  std::string more() {
    char bytes[16384];
    const ssize_t count = recv(socket_, bytes, sizeof bytes, 0);
    return count > 0 ? std::string(bytes, static_cast<size_t>(count)) : std::string();
  }

  // The next answer; chunked bodies are joined.
  TestReply reply(bool has_body = true) {
    TestReply reply;
    if (!read_until("\r\n\r\n")) return reply;
    std::string head = take(pending_.find("\r\n\r\n") + 4);
    reply.status = std::atoi(head.c_str() + 9);
    for (size_t at = head.find("\r\n") + 2; at + 2 < head.size();) {
      const size_t colon = head.find(": ", at), end = head.find("\r\n", at);
      reply.headers[head.substr(at, colon - at)] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    if (!has_body) return reply;
    if (reply.headers.contains("Transfer-Encoding")) {
      while (read_until("\r\n")) {
        const size_t size = std::strtoul(take(pending_.find("\r\n") + 2).c_str(), nullptr, 16);
        if (!read_count(size + 2)) break;
        reply.body += take(size + 2).substr(0, size);
        if (size == 0) break;
      }
    } else {
      const size_t size = std::strtoul(reply.headers["Content-Length"].c_str(), nullptr, 10);
      if (read_count(size)) reply.body = take(size);
    }
    return reply;
  }

 private:
  bool read_until(std::string_view mark) {
    while (pending_.find(mark) == pending_.npos) {
      const std::string bytes = more();
      if (bytes.empty()) return false;
      pending_ += bytes;
    }
    return true;
  }
  bool read_count(size_t count) {
    while (pending_.size() < count) {
      const std::string bytes = more();
      if (bytes.empty()) return false;
      pending_ += bytes;
    }
    return true;
  }
  std::string take(size_t count) {
    std::string bytes = pending_.substr(0, count);
    pending_.erase(0, count);
    return bytes;
  }

  int socket_;
  bool connected_ = false;
  std::string pending_;
};

}  // namespace quern::server

// A server that answers as a test says, byte by byte, so that it can misbehave. Blocking sockets, a
// thread for each connection. Used by the tests of this folder.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace quern::load {

class FakeServer {
 public:
  struct Call {
    std::string path, head, body;
    int number = 0;  // of all requests, from 0
    int socket = -1;
    void send(std::string_view bytes) const {
      while (!bytes.empty()) {
        const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
    void reply(int status, std::string_view type, std::string_view content) const {
      send("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + std::string(type) +
           "\r\nContent-Length: " + std::to_string(content.size()) + "\r\n\r\n" +
           std::string(content));
    }
    void begin_stream() const {
      send(
          "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
          "Transfer-Encoding: chunked\r\n\r\n");
    }
    void event(std::string_view data) const {
      char size[20];
      std::snprintf(size, sizeof size, "%zx\r\n", data.size() + 8);
      send(size + ("data: " + std::string(data)) + "\n\n\r\n");
    }
    void end_stream() const { send("0\r\n\r\n"); }
  };
  // Answers one request; false closes the connection.
  using Handler = std::function<bool(const Call&)>;

  explicit FakeServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    listen(listener_, 128);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : sockets_) shutdown(socket, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int calls() const { return calls_; }
  int connections() const { return static_cast<int>(threads_.size()); }

 private:
  void accept_all() {
    for (int socket; (socket = accept(listener_, nullptr, nullptr)) >= 0;) {
      const int at_once = 1;  // events are not gathered into one packet
      setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      const std::lock_guard lock(mutex_);
      sockets_.push_back(socket);
      threads_.emplace_back([this, socket] { serve(socket); });
    }
  }

  void serve(int socket) {
    std::string bytes;
    while (true) {
      Call call;
      call.socket = socket;
      std::size_t end;
      while ((end = bytes.find("\r\n\r\n")) == bytes.npos) {
        if (!more(socket, &bytes)) return drop(socket);
      }
      call.head = bytes.substr(0, end + 4);
      bytes.erase(0, end + 4);
      const std::size_t blank = call.head.find(' ');
      call.path = call.head.substr(blank + 1, call.head.find(' ', blank + 1) - blank - 1);
      const std::size_t at = call.head.find("Content-Length: ");
      const std::size_t size =
          at == call.head.npos ? 0 : std::strtoul(call.head.c_str() + at + 16, nullptr, 10);
      while (bytes.size() < size) {
        if (!more(socket, &bytes)) return drop(socket);
      }
      call.body = bytes.substr(0, size);
      bytes.erase(0, size);
      call.number = calls_++;
      if (!handler_(call)) return drop(socket);
    }
  }

  static bool more(int socket, std::string* bytes) {
    char part[4096];
    const ssize_t count = recv(socket, part, sizeof part, 0);
    if (count > 0) bytes->append(part, static_cast<std::size_t>(count));
    return count > 0;
  }

  // Closed under the lock, so that the destructor never shuts down another's socket.
  void drop(int socket) {
    const std::lock_guard lock(mutex_);
    std::erase(sockets_, socket);
    close(socket);
  }

  Handler handler_;
  int listener_ = -1, port_ = 0;
  std::atomic<int> calls_ = 0;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace quern::load

// An HTTP request and its answer as plain values, so that routes and pages know neither sockets nor
// Beast. Made by connection.cpp, answered by pages.cpp and error_pages.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::server {

struct HttpRequest {
  std::string method;  // as sent: GET, POST, …
  std::string path;    // as sent, without the query
  std::string query;   // as sent, what follows the question mark
  std::string content_type;
  bool has_content_type = false;
  std::vector<std::string> authorization;  // every Authorization header
  std::string body;
};

struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

std::string_view status_words(int status);  // "Not Found"; "Status" for an unknown one

}  // namespace quern::server

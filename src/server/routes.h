// The table of routes: what stands where and which methods it takes. Every route but /health is
// behind the API key (connection.cpp asks before it looks here).
#pragma once

#include <string_view>

namespace quern::server {

enum class Action {
  kIndex,
  kHealth,
  kModels,
  kModel,
  kModelInfo,
  kServerInfo,
  kTokenize,
  kDetokenize,
  kChatCompletion,
  kCompletion,
  kGenerate,
};

struct Route {
  std::string_view path;
  bool prefix;  // the rest of the path is an argument
  std::string_view methods;
  Action action;

  bool generates() const { return action >= Action::kChatCompletion; }
  bool takes_body() const { return action >= Action::kTokenize; }
};

// Paths are compared byte by byte as they were sent. OPTIONS is left to the caller.
// Throws: kRouteNotFound, kMethodNotAllowed.
const Route& find_route(std::string_view method, std::string_view path);

}  // namespace quern::server

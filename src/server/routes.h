// The table of routes: what stands where and which methods it takes. Every route but /health is
// behind the API key (request_checks.cpp asks before it looks here).
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
  kMetrics,
  kCatalogList,
  kCatalogEntry,
  kCatalogIndexPage,
  kCatalogEntryPage,
  kTokenize,
  kDetokenize,
  kParseFunctionCall,
  kSeparateReasoning,
  kFlushCache,
  kAbortRequest,
  kPauseGeneration,
  kContinueGeneration,
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
  // Answered without an engine: while the model is loaded, and where there is none.
  bool is_catalog() const {
    return action >= Action::kCatalogList && action <= Action::kCatalogEntryPage;
  }
  // Acts on other requests.
  bool is_control() const {
    return action >= Action::kFlushCache && action <= Action::kContinueGeneration;
  }
  bool takes_body() const { return action >= Action::kTokenize; }
};

// Paths are compared byte by byte as they were sent. OPTIONS is left to the caller.
// Throws: kRouteNotFound, kMethodNotAllowed.
const Route& find_route(std::string_view method, std::string_view path);

}  // namespace quern::server

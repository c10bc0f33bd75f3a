#include "server/routes.h"

#include "base/error.h"
#include "base/errors/server.h"

namespace quern::server {
namespace {

constexpr std::string_view kRead = "GET, HEAD, OPTIONS";
constexpr std::string_view kWrite = "POST, OPTIONS";

constexpr Route kRoutes[] = {
    {"/", false, kRead, Action::kIndex},
    {"/health", false, kRead, Action::kHealth},
    {"/health_generate", false, kRead, Action::kHealth},
    {"/v1/models", false, kRead, Action::kModels},
    {"/v1/models/", true, kRead, Action::kModel},
    {"/model_info", false, kRead, Action::kModelInfo},
    {"/get_model_info", false, kRead, Action::kModelInfo},
    {"/server_info", false, kRead, Action::kServerInfo},
    {"/get_server_info", false, kRead, Action::kServerInfo},
    {"/metrics", false, kRead, Action::kMetrics},
    {"/api/errors", false, kRead, Action::kCatalogList},
    {"/api/errors/", true, kRead, Action::kCatalogEntry},
    {"/errors", false, kRead, Action::kCatalogIndexPage},
    {"/errors/", false, kRead, Action::kCatalogIndexPage},
    {"/errors/", true, kRead, Action::kCatalogEntryPage},
    {"/tokenize", false, kWrite, Action::kTokenize},
    {"/v1/tokenize", false, kWrite, Action::kTokenize},
    {"/detokenize", false, kWrite, Action::kDetokenize},
    {"/v1/detokenize", false, kWrite, Action::kDetokenize},
    {"/parse_function_call", false, kWrite, Action::kParseFunctionCall},
    {"/separate_reasoning", false, kWrite, Action::kSeparateReasoning},
    {"/flush_cache", false, "GET, HEAD, POST, OPTIONS", Action::kFlushCache},
    {"/abort_request", false, kWrite, Action::kAbortRequest},
    {"/pause_generation", false, kWrite, Action::kPauseGeneration},
    {"/continue_generation", false, kWrite, Action::kContinueGeneration},
    {"/v1/chat/completions", false, kWrite, Action::kChatCompletion},
    {"/v1/completions", false, kWrite, Action::kCompletion},
    {"/generate", false, kWrite, Action::kGenerate},
};

bool takes(const Route& route, std::string_view method) {
  std::string_view rest = route.methods;
  while (!rest.empty()) {
    const size_t end = rest.find(", ");
    if (rest.substr(0, end) == method) return true;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 2);
  }
  return false;
}

}  // namespace

const Route& find_route(std::string_view method, std::string_view path) {
  for (const Route& route : kRoutes) {
    const bool here = route.prefix ? path.starts_with(route.path) && path.size() > route.path.size()
                                   : path == route.path;
    if (!here) continue;
    if (!takes(route, method)) {
      throw Error(errors::kMethodNotAllowed,
                  {{"path", path}, {"method", method}, {"allowed", route.methods}});
    }
    return route;
  }
  throw Error(errors::kRouteNotFound, {{"path", path}});
}

}  // namespace quern::server

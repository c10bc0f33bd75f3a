// What can be said of a request from its header alone, before its body is read: key, route, method,
// content type, size, and whether the server takes requests now. Called by connection.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "server/http_server.h"
#include "server/http_types.h"
#include "server/routes.h"

namespace quern::server {

struct CheckContext {
  const ServerOptions& options;
  bool ready;  // an engine is there
  bool draining;
  bool catalog_only;  // only the catalogue is served
};

// The reply that ends the request here, or nothing and the route that is to answer it.
std::optional<Reply> check_head(const HttpRequest& request, std::uint64_t content_length,
                                const CheckContext& context, const Route** route);

}  // namespace quern::server

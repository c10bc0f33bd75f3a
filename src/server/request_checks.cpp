#include "server/request_checks.h"

#include <cctype>

#include "base/errors/server.h"
#include "server/api_key.h"
#include "server/error_pages.h"

namespace quern::server {
namespace {

// Lower case, without the blanks and quotes that a header may have around its parts.
std::string plain(std::string_view part) {
  std::string text;
  for (const char c : part) {
    if (c == ' ' || c == '\t' || c == '"') continue;
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

bool is_json_in_utf8(std::string_view content_type) {
  size_t end = content_type.find(';');
  if (plain(content_type.substr(0, end)) != "application/json") return false;
  while (end != content_type.npos) {
    content_type.remove_prefix(end + 1);
    end = content_type.find(';');
    const std::string parameter = plain(content_type.substr(0, end));
    if (parameter.starts_with("charset=") && parameter != "charset=utf-8" &&
        parameter != "charset=utf8") {
      return false;
    }
  }
  return true;
}

Reply options_reply(const Route& route) {
  Reply reply;
  reply.status = 204;
  reply.headers.emplace_back("Allow", route.methods);
  return reply;
}

// Where only the catalogue is served, / leads to it and a health check finds the server well.
Reply without_engine(const HttpRequest& request, const Route& route) {
  Reply reply;
  if (route.action == Action::kIndex) {
    reply.status = 302;
    reply.headers.emplace_back("Location", "/errors");
    return reply;
  }
  if (route.action != Action::kHealth) {
    throw Error(errors::kRouteNotFound, {{"path", request.path}});
  }
  reply.content_type = "text/plain";
  return reply;
}

}  // namespace

std::optional<Reply> check_head(const HttpRequest& request, std::uint64_t content_length,
                                const CheckContext& context, const Route** route) {
  try {
    const bool reads = request.method == "GET" || request.method == "HEAD";
    const bool liveness = reads && request.path == "/health";
    const std::string& key = context.options.api_key;
    if (!key.empty() && !liveness && !key_matches(key, request.authorization)) {
      throw Error(errors::kInvalidApiKey);
    }
    *route = &find_route(request.method, request.path);
    if (context.catalog_only && !(*route)->is_catalog()) return without_engine(request, **route);
    if (request.method == "OPTIONS") return options_reply(**route);
    if (!context.ready && !(*route)->is_catalog()) throw Error(errors::kModelLoading);
    if (context.draining && (*route)->takes_body()) throw Error(errors::kServerDraining);
    if ((*route)->takes_body() && request.has_content_type &&
        !is_json_in_utf8(request.content_type)) {
      throw Error(errors::kUnsupportedMediaType, {{"value", request.content_type}});
    }
    if (content_length > context.options.max_body_bytes) {
      throw Error(errors::kBodyTooLarge, {{"limit", context.options.max_body_bytes}});
    }
    return std::nullopt;
  } catch (...) {
    return error_reply(current_error());
  }
}

}  // namespace quern::server

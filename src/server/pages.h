// Everything the server answers without generating: health, models, facts about the server,
// tokenizing, and the page at /. Called by connection.cpp; the pages with a body on a worker
// thread.
#pragma once

#include "quern/engine.h"
#include "server/http_types.h"
#include "server/routes.h"

namespace quern::server {

struct ServerFacts {
  std::string url;        // as printed at start
  bool draining = false;  // /health says 503
  bool guarded = false;   // an API key is needed
};

// Throws: Error for what the client did wrong.
Reply page(const Route& route, const HttpRequest& request, const Engine& engine,
           const ServerFacts& facts);

// The HTML at /: what is served and a command to paste.
std::string index_page(const EngineInfo& info, const ServerFacts& facts);

// A shell command that streams an answer from this server: a chat, or a completion where the model
// has no chat template.
std::string curl_command(const EngineInfo& info, const ServerFacts& facts);

}  // namespace quern::server

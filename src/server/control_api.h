// POST /abort_request, /pause_generation, /continue_generation and /flush_cache: SGLang's routes
// that act on all requests. Called by connection.cpp on a worker thread.
#pragma once

#include <chrono>

#include "quern/engine.h"
#include "server/http_types.h"
#include "server/request_registry.h"

namespace quern::server {

// {"rid": the beginning of ids, or "abort_all": true}. Their clients get the text so far with the
// finish reason "abort". Throws: kInvalidJson, kWrongFieldType, kFieldOutOfRange, kMissingField.
Reply abort_reply(std::string_view body, RequestRegistry& requests);

// {"mode": "abort" (the default), "retract", "in_place"}, or no body. Throws: kInvalidJson,
// kWrongFieldType, kFieldOutOfRange.
Reply pause_reply(std::string_view body, RequestRegistry& requests, Engine& engine);
Reply continue_reply(Engine& engine);

// Seconds that /flush_cache may wait until no request runs, from the query's `timeout`; 0 where it
// is absent. Throws: kFieldOutOfRange.
std::chrono::milliseconds flush_limit(std::string_view query);
// 200 and the words for it, or kCacheInUse.
Reply flush_reply(bool flushed);

}  // namespace quern::server

#include "server/control_api.h"

#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/errors/server.h"
#include "server/error_pages.h"
#include "server/json_body.h"
#include "server/text_forms.h"

namespace quern::server {
namespace {

constexpr double kMaxFlushSeconds = 3600;

Json object_or_nothing(std::string_view body) {
  return body.empty() ? Json::object() : parse_object(body);
}

Reply json_reply(const JsonOut& json) {
  Reply reply;
  reply.body = dump(json);
  return reply;
}

}  // namespace

Reply abort_reply(std::string_view body, RequestRegistry& requests) {
  const Json json = object_or_nothing(body);
  const Fields fields(json);
  const bool all = fields.boolean("abort_all").value_or(false);
  const auto rid = fields.text("rid");
  if (!all && !rid) {
    throw Error(errors::kMissingField,
                {{"param", "rid"}, {"expected", "give a rid or \"abort_all\": true"}});
  }
  if (!all && rid->empty()) fields.out_of_range("rid", "not empty; abort_all ends all", Json(*rid));
  return json_reply({{"aborted", requests.end(all ? "" : *rid)}});
}

Reply pause_reply(std::string_view body, RequestRegistry& requests, Engine& engine) {
  const Json json = object_or_nothing(body);
  const Fields fields(json);
  const std::string mode = fields.text("mode").value_or("abort");
  PauseMode pause = PauseMode::kAbort;
  if (mode == "retract") {
    pause = PauseMode::kRetract;
  } else if (mode == "in_place") {
    pause = PauseMode::kInPlace;
  } else if (mode != "abort") {
    fields.out_of_range("mode", "abort, retract or in_place", Json(mode));
  }
  if (pause == PauseMode::kAbort) requests.end("");
  engine.pause(pause);
  return json_reply({{"message", "Generation paused successfully."}, {"status", "ok"}});
}

Reply continue_reply(Engine& engine) {
  engine.resume();
  return json_reply({{"message", "Generation continued successfully."}, {"status", "ok"}});
}

std::chrono::milliseconds flush_limit(std::string_view query) {
  const std::string text = query_value(query, "timeout");
  if (text.empty()) return {};
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, seconds);
  if (code != std::errc() || stop != end || !(seconds >= 0 && seconds <= kMaxFlushSeconds)) {
    throw Error(errors::kFieldOutOfRange,
                {{"param", "timeout"},
                 {"expected", fmt::format("a number of seconds from 0 to {}", kMaxFlushSeconds)},
                 {"actual", text.substr(0, 60)}});
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

Reply flush_reply(bool flushed) {
  if (!flushed) return error_reply(Error(errors::kCacheInUse));
  Reply reply;
  reply.content_type = "text/plain; charset=utf-8";
  reply.body = "Cache flushed.\n";
  return reply;
}

}  // namespace quern::server

#include "server/error_pages.h"

#include <fmt/format.h>

#include <cctype>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>

#include "base/errors/base.h"
#include "base/errors/server.h"

namespace quern::server {
namespace {

using Json = nlohmann::ordered_json;

std::string snake_case(std::string_view symbol) {
  std::string word;
  for (const char c : symbol) {
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (upper && !word.empty()) word += '_';
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return word;
}

std::string object(std::string_view message, const ErrorEntry& entry, std::string_view param,
                   std::string_view code, std::string_view hint) {
  Json error = {{"message", valid_utf8(message)},
                {"type", entry.type},
                {"param", param.empty() ? Json(nullptr) : Json(valid_utf8(param))},
                {"code", code.empty() ? snake_case(entry.symbol) : std::string(code)},
                {"id", entry.id},
                {"url", fmt::format("/errors/{}", entry.slug)}};
  if (!hint.empty()) error["hint"] = valid_utf8(hint);
  return Json{{"error", std::move(error)}}.dump();
}

void add_retry_after(Reply& reply) {
  if (reply.status == 503) reply.headers.emplace_back("Retry-After", "1");
}

// Events carry the id as text, because programs that embed the engine see them too.
const ErrorEntry& entry_of(const TokenEvent& event) {
  if (event.finish_reason == FinishReason::kCancelled) {
    return Error(errors::kRequestCancelled).entry();  // made, so that a trace of errors has it
  }
  for (const ErrorEntry& entry : error_entries()) {
    if (event.error_id == entry.id || event.error_id == entry.symbol) return entry;
  }
  return error_entry(errors::kHandlerFailed);
}

}  // namespace

std::string error_body(const Error& error, std::string_view param) {
  const bool named = !error.field("param").empty() || error.entry().http_status >= 500;
  return object(error.message(), error.entry(), named ? error.field("param") : param,
                error.field("code"), error.field("hint"));
}

Reply error_reply(const Error& error, std::string_view param) {
  Reply reply;
  reply.status = error.entry().http_status;
  reply.body = error_body(error, param);
  if (reply.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (const std::string_view allowed = error.field("allowed"); reply.status == 405) {
    reply.headers.emplace_back("Allow", allowed);
  }
  add_retry_after(reply);
  return reply;
}

std::string error_body(const TokenEvent& event) {
  const ErrorEntry& entry = entry_of(event);
  return object(event.error_message.empty() ? entry.message : event.error_message, entry, "", "",
                "");
}

Reply error_reply(const TokenEvent& event) {
  Reply reply;
  const bool known = event.error_http_status >= 400 && event.error_http_status <= 599;
  reply.status = known ? event.error_http_status : entry_of(event).http_status;
  reply.body = error_body(event);
  add_retry_after(reply);
  return reply;
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(errors::kOutOfMemory, {{"what", "a request"}, {"bytes", "the needed"}});
  } catch (const std::exception& failure) {
    return Error(errors::kHandlerFailed, {{"what", failure.what()}});
  } catch (...) {
    return Error(errors::kHandlerFailed, {{"what", "an unknown exception"}});
  }
}

}  // namespace quern::server

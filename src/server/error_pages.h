// Errors as clients see them: OpenAI's error object with a status. Used for every answer that is
// not a success, and for the last event of a stream that failed.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "quern/types.h"
#include "server/http_types.h"

namespace quern::server {

// {"error":{"message","type","param","code","id","url"}} in valid UTF-8. `code` is the error's
// field of that name where OpenAI has a word for it, else the entry's symbol in snake_case; `id`
// its 16 hex digits, `url` the page that explains it; `hint` stands there where the error has one.
// `param` is named where the error does not name a field itself and the client is at fault.
std::string error_body(const Error& error, std::string_view param = "");
Reply error_reply(const Error& error, std::string_view param = "");

// The same for a request that the engine ended with kError or kCancelled.
std::string error_body(const TokenEvent& event);
Reply error_reply(const TokenEvent& event);

// The error that is being handled: called inside `catch (...)`.
Error current_error();

}  // namespace quern::server

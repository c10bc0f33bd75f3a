// Errors as clients see them: OpenAI's error object with a status. Used for every answer that is
// not a success, and for the last event of a stream that failed.
#pragma once

#include <string>

#include "base/error.h"
#include "quern/types.h"
#include "server/http_types.h"

namespace quern::server {

// {"error":{"message","type","param","code","id"}} in valid UTF-8. `code` is the entry's symbol in
// snake_case (model_not_found), `id` its 16 hex digits; `hint` stands there where the error has one.
std::string error_body(const Error& error);
Reply error_reply(const Error& error);

// The same for a request that the engine ended with kError or kCancelled.
std::string error_body(const TokenEvent& event);
Reply error_reply(const TokenEvent& event);

// The error that is being handled: called inside `catch (...)`.
Error current_error();

}  // namespace quern::server

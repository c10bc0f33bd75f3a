// HTTP/1.1 answers as bytes. Used by connection.cpp.
#pragma once

#include <string>
#include <string_view>

#include "server/http_types.h"

namespace quern::server {

// Status line, headers and, but for `head_only`, the body.
std::string reply_text(const Reply& reply, bool keep_alive, bool head_only);

// Status line and headers of an event stream, chunked or ended by the connection's end.
std::string stream_head(bool keep_alive, bool chunked);
// `frames` as the next part of it, with the end of the stream where it `ends`.
std::string stream_part(std::string_view frames, bool chunked, bool ends);

}  // namespace quern::server

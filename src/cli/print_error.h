// How errors look in a terminal: the message with its id, then the hint's lines. Used by main and
// by the chat, which goes on after one.
#pragma once

#include "base/error.h"

namespace quern::cli {

void print_error(const Error& error);  // to stderr

}  // namespace quern::cli

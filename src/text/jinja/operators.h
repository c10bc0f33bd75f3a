// Python's arithmetic on any values. Throws kChatTemplateFailed where Python would raise, and where
// an integer gets more than 128 bits; kChatTemplateLimit for what gets too large.
#pragma once

#include "text/jinja/runtime.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

// `kind` is one of kAdd … kPower.
Value arithmetic(Runtime& runtime, ExprKind kind, const Value& a, const Value& b);
Value negative(Runtime& runtime, const Value& value);
Value positive(Runtime& runtime, const Value& value);

}  // namespace quern::text::jinja

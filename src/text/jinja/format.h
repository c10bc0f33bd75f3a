// Values as text: str(), repr(), JSON, and the two ways of Python to fill values into a text.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

std::string int_text(Int number);
std::string float_text(double number);  // as repr(): the shortest that reads back

// str(value); what is undefined is "".
Value to_text(Runtime& runtime, const Value& value);
void append_text(Runtime& runtime, const Value& value, MarkedText& out);
void append_repr(Runtime& runtime, const Value& value, MarkedText& out);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // of one level
  std::string item_separator = ", ", key_separator = ": ";
};
Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

// '%s is %d' % values: a tuple, a dict for %(name)s, or one value.
Value percent_format(Runtime& runtime, const Str& format, const Value& values);
// '{0} is {x:>4}'.format(…)
Value brace_format(Runtime& runtime, const Str& format, const Arguments& arguments);

// Text in a field of `width` characters, more being kept. `align` is one of < > ^, or c
// for what str.center() does.
void append_padded(Runtime& runtime, const Value& text, std::int64_t width, std::string_view fill,
                   char align, MarkedText& out);

// &, <, >, ' and " as HTML's entities; what is markup stays. The result is markup.
Value escaped(Runtime& runtime, const Value& value);

}  // namespace quern::text::jinja

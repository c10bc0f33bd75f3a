#include "text/jinja/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/objects.h"
#include "text/jinja/protocol.h"
#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

using UInt = unsigned __int128;

bool is_data(const Str& text) { return text.origin != Origin::kTemplate; }

void append_quoted(const Str& text, MarkedText& out) {
  const std::string_view bytes = text.text;
  const bool single = bytes.find('\'') == std::string_view::npos;
  const char quote = single || bytes.find('"') != std::string_view::npos ? '\'' : '"';
  std::string quoted(1, quote);
  for (std::size_t at = 0; at < bytes.size();) {
    const Char c = char_at(bytes, at);
    if (c.code == static_cast<char32_t>(quote) || c.code == '\\') {
      quoted += '\\';
      quoted += static_cast<char>(c.code);
    } else if (c.code == '\n') {
      quoted += "\\n";
    } else if (c.code == '\r') {
      quoted += "\\r";
    } else if (c.code == '\t') {
      quoted += "\\t";
    } else if (is_printable(c.code)) {
      quoted += bytes.substr(at, c.size);
    } else {
      const auto code = static_cast<std::uint32_t>(c.code);
      quoted += code < 0x100     ? fmt::format("\\x{:02x}", code)
                : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                 : fmt::format("\\U{:08x}", code);
    }
    at += c.size;
  }
  quoted += quote;
  out.append(quoted, is_data(text));
}

void append_items(Runtime& runtime, std::span<const Value> items, std::string_view open,
                  std::string_view close, MarkedText& out) {
  out.append(open);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(runtime, items[i], out);
  }
  out.append(close);
}

void append_dict(Runtime& runtime, const Dict& dict, MarkedText& out) {
  out.append("{");
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(runtime, dict.entries[i].key, out);
    out.append(": ");
    append_repr(runtime, dict.entries[i].value, out);
  }
  out.append("}");
}

void append_view(Runtime& runtime, const Sequence& view, MarkedText& out) {
  if (view.consumed) {
    out.append(fmt::format("<{} object>", view.type));
    return;
  }
  out.append(view.type);
  append_items(runtime, view.items, "([", "])", out);
}

void append_namespace(Runtime& runtime, const Namespace& space, MarkedText& out) {
  std::vector<const Member*> members;  // newest first, as they are linked
  for (const Member* member = space.members; member != nullptr; member = member->next) {
    members.push_back(member);
  }
  out.append("<Namespace {");
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    if (member != members.rbegin()) out.append(", ");
    append_quoted(*(*member)->name, out);
    out.append(": ");
    append_repr(runtime, (*member)->value, out);
  }
  out.append("}>");
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void write(const Value& value, int depth) {
    runtime_.step();
    runtime_.check_size(out_.size());
    switch (value.kind) {
      case Kind::kNone: out_ += "null"; return;
      case Kind::kBool: out_ += value.boolean ? "true" : "false"; return;
      case Kind::kInt: out_ += int_text(value.integer); return;
      case Kind::kFloat: out_ += number(value.real); return;
      case Kind::kString: text(*value.string); return;
      case Kind::kList:
      case Kind::kTuple: list(value.sequence->items, depth); return;
      case Kind::kDict: dict(*value.dict, depth); return;
      default: runtime_.fail(fmt::format("a {} cannot be written as JSON", type_name(value)));
    }
  }

  std::string_view out() const { return out_; }
  bool data() const { return data_; }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
  }

  void text(const Str& value) {
    data_ |= is_data(value);
    runtime_.charge(value.text.size());
    out_ += '"';
    for (std::size_t at = 0; at < value.text.size();) {
      const Char c = char_at(value.text, at);
      const auto code = static_cast<std::uint32_t>(c.code);
      constexpr std::string_view kPlain = "\"\\\n\r\t\f\b", kWritten = "\"\\nrtfb";
      const std::size_t found = code < 0x80 ? kPlain.find(static_cast<char>(code)) : kPlain.npos;
      if (found != kPlain.npos) {
        out_ += '\\';
        out_ += kWritten[found];
      } else if (code < 0x20 || (style_.ascii && code >= 0x7F && code < 0x10000)) {
        out_ += fmt::format("\\u{:04x}", code);
      } else if (style_.ascii && code >= 0x10000) {
        out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                            0xDC00 + ((code - 0x10000) & 0x3FF));
      } else {
        out_ += value.text.substr(at, c.size);
      }
      at += c.size;
    }
    out_ += '"';
  }

  void key(const Value& value) {
    if (value.is_string()) return text(*value.string);
    if (!value.is_number() && !value.is(Kind::kNone)) {
      runtime_.fail(fmt::format("a {} cannot be a key in JSON", type_name(value)));
    }
    out_ += '"';
    write(value, 0);
    out_ += '"';
  }

  void new_line(int depth) {
    if (!style_.indented) return;
    runtime_.check_product(style_.indent.size(), depth);
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += style_.indent;
  }

  void list(std::span<const Value> items, int depth) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    const Runtime::Deeper deeper(runtime_);
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(depth + 1);
      write(items[i], depth + 1);
    }
    new_line(depth);
    out_ += ']';
  }

  void dict(const Dict& value, int depth) {
    if (value.entries.empty()) {
      out_ += "{}";
      return;
    }
    const Runtime::Deeper deeper(runtime_);
    std::vector<Entry> entries(value.entries.begin(), value.entries.end());
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
        return compare(runtime_, a.key, b.key, "<") < 0;
      });
    }
    out_ += '{';
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line(depth + 1);
      key(entries[i].key);
      out_ += style_.key_separator;
      write(entries[i].value, depth + 1);
    }
    new_line(depth);
    out_ += '}';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  std::string out_;
  bool data_ = false;
};

}  // namespace

std::string int_text(Int number) {
  UInt rest = number < 0 ? UInt{0} - static_cast<UInt>(number) : static_cast<UInt>(number);
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
    rest /= 10;
  } while (rest > 0);
  if (number < 0) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char shortest[64];
  const auto end =
      std::to_chars(shortest, shortest + sizeof shortest, number, std::chars_format::scientific);
  const std::string_view text(shortest, static_cast<std::size_t>(end.ptr - shortest));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + mark + (text[mark + 1] == '+' ? 2 : 1), end.ptr, exponent);
  std::string sign, digits;
  for (const char c : text.substr(0, mark)) {
    if (c == '-') sign = "-";
    if (c >= '0' && c <= '9') digits += c;
  }
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto whole = static_cast<std::size_t>(exponent + 1);
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_text(Runtime& runtime, const Value& value, MarkedText& out) {
  if (value.is_string()) {
    out.append(*value.string);
    runtime.charge(value.text().size());
    runtime.check_size(out.size());
  } else if (!value.is_undefined()) {
    append_repr(runtime, value, out);
  }
}

void append_repr(Runtime& runtime, const Value& value, MarkedText& out) {
  runtime.step();
  runtime.check_size(out.size());
  const Runtime::Deeper deeper(runtime);
  switch (value.kind) {
    case Kind::kUndefined: out.append("Undefined"); return;
    case Kind::kNone: out.append("None"); return;
    case Kind::kBool: out.append(value.boolean ? "True" : "False"); return;
    case Kind::kInt: out.append(int_text(value.integer)); return;
    case Kind::kFloat: out.append(float_text(value.real)); return;
    case Kind::kString:
      runtime.charge(value.text().size());
      if (value.string->markup) out.append("Markup(");
      append_quoted(*value.string, out);
      if (value.string->markup) out.append(")");
      return;
    case Kind::kList: append_items(runtime, value.sequence->items, "[", "]", out); return;
    case Kind::kTuple: {
      const bool one = value.sequence->items.size() == 1;
      append_items(runtime, value.sequence->items, "(", one ? ",)" : ")", out);
      return;
    }
    case Kind::kView: append_view(runtime, *value.sequence, out); return;
    case Kind::kRange: {
      const Range& range = *value.range;
      out.append(fmt::format("range({}, {}", range.start, range.at(range.size)));
      out.append(range.step == 1 ? ")" : fmt::format(", {})", range.step));
      return;
    }
    case Kind::kDict: append_dict(runtime, *value.dict, out); return;
    case Kind::kNamespace: append_namespace(runtime, *value.space, out); return;
    case Kind::kMacro:
      out.append("<Macro ");
      append_quoted(*value.macro->name, out);
      out.append(">");
      return;
    case Kind::kLoop:
      out.append(
          fmt::format("<LoopContext {}/{}>", value.loop->index + 1, value.loop->items.size()));
      return;
    case Kind::kMethod:
      out.append(fmt::format("<built-in method {} of {} object>", value.method->entry->name,
                             type_name(value.method->self)));
      return;
    case Kind::kFunction: out.append(fmt::format("<function {}>", value.function->name)); return;
    case Kind::kCycler:
    case Kind::kJoiner: out.append(fmt::format("<{} object>", type_name(value))); return;
  }
}

Value to_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value;
  MarkedText out;
  append_text(runtime, value, out);
  return runtime.text(out);
}

Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.write(value, 0);
  return runtime.text(writer.out(), writer.data());
}

void append_padded(Runtime& runtime, const Value& text, std::int64_t width, std::string_view fill,
                   char align, MarkedText& out) {
  const auto used = static_cast<std::int64_t>(count_chars(text.text()));
  const std::int64_t missing = std::max<std::int64_t>(0, width - used);
  runtime.check_product(fill.size(), missing);
  runtime.charge(static_cast<std::size_t>(missing));
  // Of an odd number str.center() puts the larger half left if the width is odd, a format never.
  const std::int64_t odd = align == 'c' ? missing & width & 1 : 0;
  const std::int64_t left = align == '>' ? missing : align == '<' ? 0 : missing / 2 + odd;
  for (std::int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(*text.string);
  for (std::int64_t i = left; i < missing; ++i) out.append(fill);
}

Value escaped(Runtime& runtime, const Value& value) {
  if (value.is_string() && value.string->markup) return value;
  const Value plain = to_text(runtime, value);
  MarkedText out;
  const std::string_view text = plain.text();
  constexpr std::string_view kSpecial = "&<>'\"";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = std::min(text.find_first_of(kSpecial, at), text.size());
    out.append(*runtime.part(*plain.string, at, next).string);
    if (next == text.size()) break;
    out.append(kEntities[kSpecial.find(text[next])], plain.string->origin != Origin::kTemplate);
    at = next + 1;
  }
  const Value made = runtime.text(out);
  return string(
      runtime.arena().make<Str>(made.string->text, made.string->origin, true, made.string->data));
}

}  // namespace quern::text::jinja

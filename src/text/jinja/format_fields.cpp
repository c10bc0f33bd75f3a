// Filling values into a text: '%s' % x and '{}'.format(x).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/format.h"
#include "text/jinja/protocol.h"
#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;  // of a field; beyond it the rendering is stopped

struct Field {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  bool plus = false, blank = false, alternate = false, grouped = false;
  std::int64_t width = 0;
  std::optional<std::int64_t> precision;
  char type = '\0';
};

double number_of(Runtime& runtime, const Value& value) {
  if (!value.is_number()) {
    runtime.fail(fmt::format("a number is to be formatted, but this is a {}", type_name(value)));
  }
  return value.as_double();
}

std::string float_digits(double value, char type, std::int64_t precision, bool alternate) {
  std::string format = alternate ? "%#.*" : "%.*";
  format += type;
  const int size = std::snprintf(nullptr, 0, format.c_str(), static_cast<int>(precision), value);
  std::string text(static_cast<std::size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), static_cast<int>(precision), value);
  text.pop_back();
  return text;
}

std::string radix_digits(Int value, int base, bool upper) {
  auto rest = static_cast<unsigned __int128>(value < 0 ? -value : value);
  std::string digits;
  do {
    digits += (upper ? "0123456789ABCDEF"
                     : "0123456789abcdef")[static_cast<int>(rest % static_cast<unsigned>(base))];
    rest /= static_cast<unsigned>(base);
  } while (rest > 0);
  return {digits.rbegin(), digits.rend()};
}

// Digits without a sign, as the type of the field wants them.
std::string digits_of(Runtime& runtime, const Field& field, const Value& value) {
  const char type = field.type;
  const std::string_view floats = "eEfFgG%";
  if (floats.find(type) != std::string_view::npos) {
    const double number = std::fabs(number_of(runtime, value)) * (type == '%' ? 100 : 1);
    const char kind = type == '%' ? 'f' : type;
    return float_digits(number, kind, field.precision.value_or(6), field.alternate) +
           (type == '%' ? "%" : "");
  }
  Int number = 0;
  if (value.is(Kind::kFloat) && std::fabs(value.real) < 1e38) {
    number = static_cast<Int>(value.real);
  } else if (value.is_integral()) {
    number = value.as_int();
  } else {
    runtime.fail(fmt::format("an int is to be formatted, but this is a {}", type_name(value)));
  }
  const std::string mark = field.alternate ? std::string("0") + type : "";
  switch (type) {
    case 'x': return mark + radix_digits(number, 16, false);
    case 'X': return mark + radix_digits(number, 16, true);
    case 'o': return mark + radix_digits(number, 8, false);
    case 'b': return mark + radix_digits(number, 2, false);
    default: return radix_digits(number, 10, false);
  }
}

std::string with_commas(std::string digits) {
  std::size_t end = digits.find_first_not_of("0123456789");
  if (end == std::string::npos) end = digits.size();
  for (std::size_t at = end; at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

void append_number(Runtime& runtime, const Field& field, const Value& value, MarkedText& out) {
  const bool negative = value.is(Kind::kFloat) ? std::signbit(value.real) : value.as_int() < 0;
  const std::string sign = negative ? "-" : field.plus ? "+" : field.blank ? " " : "";
  std::string digits = digits_of(runtime, field, value);
  if (field.grouped) digits = with_commas(std::move(digits));
  if (field.align == '=') {
    const auto used = static_cast<std::int64_t>(sign.size() + digits.size());
    std::string fill;
    for (std::int64_t i = used; i < field.width; ++i) fill += field.fill;
    digits = sign + fill + digits;
  } else {
    digits = sign + digits;
  }
  append_padded(runtime, runtime.text(digits), field.width, field.fill,
                field.align == '\0' || field.align == '=' ? '>' : field.align, out);
}

void append_string(Runtime& runtime, const Field& field, const Value& text, MarkedText& out) {
  Value shown = text;
  if (field.precision) {
    shown = runtime.part(*text.string, 0,
                         byte_of(text.text(), static_cast<std::size_t>(*field.precision)));
  }
  append_padded(runtime, shown, field.width, field.fill, field.align == '\0' ? '<' : field.align,
                out);
}

Value repr_text(Runtime& runtime, const Value& value) {
  MarkedText out;
  append_repr(runtime, value, out);
  return runtime.text(out);
}

// Reads a decimal number; stops where it gets too large for a field.
std::optional<std::int64_t> read_number(Runtime& runtime, std::string_view text, std::size_t& at) {
  std::optional<std::int64_t> number;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number.value_or(0) * 10 + (text[at++] - '0');
    if (*number > kMaxWidth) runtime.stop("a field is wider than 1 MiB");
  }
  return number;
}

class PercentFormat {
 public:
  PercentFormat(Runtime& runtime, const Str& format, const Value& values)
      : runtime_(runtime), format_(format), text_(format.text), values_(values) {
    if (values.is(Kind::kTuple)) {
      items_ = values.sequence->items;
    } else {
      items_ = std::span(&values_, 1);
    }
  }

  Value run() {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t next = std::min(text_.find('%', at), text_.size());
      out_.append(*runtime_.part(format_, at, next).string);
      at = next;
      if (at < text_.size()) field(at);
      runtime_.check_size(out_.size());
    }
    if (used_ < items_.size() && !values_.is(Kind::kDict) &&
        !(used_ == 0 && values_.is(Kind::kList))) {
      runtime_.fail("more values are given than the format has fields");
    }
    return runtime_.text(out_);
  }

 private:
  const Value& next() {
    if (used_ >= items_.size()) runtime_.fail("the format has more fields than values are given");
    return items_[used_++];
  }

  std::optional<std::int64_t> measure(std::size_t& at) {
    if (at >= text_.size() || text_[at] != '*') return read_number(runtime_, text_, at);
    ++at;
    const std::int64_t width = index_of(runtime_, next(), "a width");
    if (width > kMaxWidth) runtime_.stop("a field is wider than 1 MiB");
    return width;
  }

  const Value& named(std::size_t& at) {
    const std::size_t end = text_.find(')', at);
    if (end == std::string_view::npos || !values_.is(Kind::kDict)) {
      runtime_.fail("a field with a name needs a dict of values");
    }
    const std::string_view name = text_.substr(at + 1, end - at - 1);
    const Value* value = find(*values_.dict, name);
    if (value == nullptr) runtime_.fail(fmt::format("there is no value for the field '{}'", name));
    at = end + 1;
    return *value;
  }

  void field(std::size_t& at) {
    Field field;
    const Value* value = nullptr;
    if (++at < text_.size() && text_[at] == '(') value = &named(at);
    for (; at < text_.size() && std::string_view("-+ #0").find(text_[at]) != std::string_view::npos;
         ++at) {
      const char flag = text_[at];
      if (flag == '-') field.align = '<';
      if (flag == '+') field.plus = true;
      if (flag == ' ') field.blank = true;
      if (flag == '#') field.alternate = true;
      if (flag == '0') zero_ = true;
    }
    field.width = measure(at).value_or(0);
    if (field.width < 0) {
      field.align = '<';
      field.width = -field.width;
    }
    if (at < text_.size() && text_[at] == '.') field.precision = measure(++at).value_or(0);
    while (at < text_.size() && std::string_view("hlL").find(text_[at]) != std::string_view::npos) {
      ++at;
    }
    if (at >= text_.size()) runtime_.fail("the format ends inside a field");
    field.type = text_[at++];
    if (field.type == '%') {
      out_.append("%");
    } else {
      append(field, value != nullptr ? *value : next());
    }
    zero_ = false;
  }

  void append(Field field, const Value& value) {
    switch (field.type) {
      case 's':
        if (field.align == '\0') field.align = '>';
        append_string(runtime_, field, to_text(runtime_, value), out_);
        return;
      case 'r':
      case 'a':
        if (field.align == '\0') field.align = '>';
        append_string(runtime_, field, repr_text(runtime_, value), out_);
        return;
      case 'c':
        if (field.align == '\0') field.align = '>';
        append_string(runtime_, field, character(value), out_);
        return;
      case 'i':
      case 'u': field.type = 'd'; break;
      default: break;
    }
    if (std::string_view("dxXoeEfFgG").find(field.type) == std::string_view::npos) {
      runtime_.fail(fmt::format("there is no field of type '{}'", field.type));
    }
    number_of(runtime_, value);
    if (zero_ && field.align != '<') {
      field.align = '=';
      field.fill = "0";
    }
    append_number(runtime_, field, value, out_);
  }

  Value character(const Value& value) {
    if (value.is_string() && count_chars(value.text()) == 1) return value;
    std::string text;
    append_char(text, static_cast<char32_t>(std::clamp<std::int64_t>(
                          index_of(runtime_, value, "a character"), 0, 0x10FFFF)));
    return runtime_.text(text);
  }

  Runtime& runtime_;
  const Str& format_;
  std::string_view text_;
  Value values_;
  std::span<const Value> items_;
  std::size_t used_ = 0;
  bool zero_ = false;  // of the field being read
  MarkedText out_;
};

class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Str& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), text_(format.text), arguments_(arguments) {}

  Value run() {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t next = std::min(text_.find_first_of("{}", at), text_.size());
      out_.append(*runtime_.part(format_, at, next).string);
      at = next;
      if (at == text_.size()) break;
      const bool doubled = at + 1 < text_.size() && text_[at + 1] == text_[at];
      if (doubled) {
        out_.append(text_.substr(at, 1), format_.origin != Origin::kTemplate);
        at += 2;
      } else if (text_[at] == '}') {
        runtime_.fail("a single '}' stands in the format");
      } else {
        field(at);
      }
      runtime_.check_size(out_.size());
    }
    return runtime_.text(out_);
  }

 private:
  // {name!r:spec}; `at` is its brace.
  void field(std::size_t& at) {
    std::size_t end = at + 1;
    int open = 1;
    for (; end < text_.size() && open > 0; ++end) {
      if (text_[end] == '{') ++open;
      if (text_[end] == '}') --open;
    }
    if (open > 0) runtime_.fail("a '{' of the format is never closed");
    const std::string_view inside = text_.substr(at + 1, end - at - 2);
    at = end;
    const std::size_t mark = std::min(inside.find_first_of("!:"), inside.size());
    Value value = named(inside.substr(0, mark));
    std::string_view rest = inside.substr(mark);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) runtime_.fail("a conversion is missing behind '!'");
      value = rest[1] == 's' ? to_text(runtime_, value) : repr_text(runtime_, value);
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    append(spec(with_values(rest)), value);
  }

  // The specification with the values of the fields inside it.
  std::string with_values(std::string_view text) {
    std::string filled;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text[at] == '{' ? text.find('}', at) : std::string_view::npos;
      if (end == std::string_view::npos) {
        filled += text[at++];
      } else {
        filled += to_text(runtime_, named(text.substr(at + 1, end - at - 1))).text();
        at = end + 1;
      }
    }
    return filled;
  }

  Value named(std::string_view path) {
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, at);
    Value value;
    if (first.empty() || (first[0] >= '0' && first[0] <= '9')) {
      std::size_t end = 0;
      const auto given = read_number(runtime_, first, end);
      const auto index = given ? static_cast<std::size_t>(*given) : next_++;
      if (index >= arguments_.positional.size()) {
        runtime_.fail("the format has more fields than values are given");
      }
      value = arguments_.positional[index];
    } else {
      const auto found = std::find_if(arguments_.keywords.begin(), arguments_.keywords.end(),
                                      [&](const Keyword& known) { return known.name == first; });
      if (found == arguments_.keywords.end()) {
        runtime_.fail(fmt::format("there is no value for the field '{}'", first));
      }
      value = found->value;
    }
    while (at < path.size()) {
      const bool bracket = path[at] == '[';
      const std::size_t begin = at + 1;
      at = bracket ? path.find(']', begin) : path.find_first_of(".[", begin);
      const std::string_view name = path.substr(begin, std::min(at, path.size()) - begin);
      at = std::min(bracket && at != path.npos ? at + 1 : at, path.size());
      const Value key = runtime_.text(name);
      std::size_t digits = 0;
      const auto index = bracket ? read_number(runtime_, name, digits) : std::nullopt;
      value = !bracket                         ? attribute(runtime_, value, key.string)
              : index && digits == name.size() ? element(runtime_, value, integer(*index))
                                               : element(runtime_, value, key);
    }
    return value;
  }

  // [[fill]align][sign][#][0][width][,][.precision][type]
  Field spec(const std::string& text) {
    Field field;
    std::size_t at = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const std::size_t first = text.empty() ? 0 : char_at(text, 0).size;
    if (first > 0 && first < text.size() && is_align(text[first])) {
      field.fill = text.substr(0, first);
      field.align = text[first];
      at = first + 1;
    } else if (!text.empty() && is_align(text[0])) {
      field.align = text[at++];
    }
    const auto take = [&](char wanted) { return at < text.size() && text[at] == wanted && ++at; };
    if (take('+')) field.plus = true;
    if (take('-')) field.plus = false;
    if (take(' ')) field.blank = true;
    if (take('#')) field.alternate = true;
    if (take('0') && field.align == '\0') {
      field.align = '=';
      field.fill = "0";
    }
    field.width = read_number(runtime_, text, at).value_or(0);
    if (take(',')) field.grouped = true;
    if (take('.')) field.precision = read_number(runtime_, text, at).value_or(0);
    if (at < text.size()) field.type = text[at++];
    if (at < text.size()) runtime_.fail(fmt::format("the format '{}' has no meaning", text));
    return field;
  }

  void append(Field field, const Value& value) {
    const bool number = value.is(Kind::kInt) || value.is(Kind::kFloat) ||
                        (value.is(Kind::kBool) && field.type != '\0' && field.type != 's');
    if (!number) {
      if (field.type != '\0' && field.type != 's') {
        runtime_.fail(fmt::format("a {} has no format '{}'", type_name(value), field.type));
      }
      if (field.align == '=') field.align = '<';
      append_string(runtime_, field, to_text(runtime_, value), out_);
      return;
    }
    if (field.type == '\0' && value.is(Kind::kFloat) && !field.precision) {
      if (field.align == '\0') field.align = '>';
      append_string(runtime_, field, to_text(runtime_, value), out_);
      return;
    }
    if (field.type == '\0') field.type = value.is(Kind::kFloat) ? 'g' : 'd';
    if (std::string_view("bdoxXeEfFgG%").find(field.type) == std::string_view::npos) {
      runtime_.fail(fmt::format("a number has no format '{}'", field.type));
    }
    append_number(runtime_, field, value, out_);
  }

  Runtime& runtime_;
  const Str& format_;
  std::string_view text_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  MarkedText out_;
};

}  // namespace

Value percent_format(Runtime& runtime, const Str& format, const Value& values) {
  return PercentFormat(runtime, format, values).run();
}

Value brace_format(Runtime& runtime, const Str& format, const Arguments& arguments) {
  return BraceFormat(runtime, format, arguments).run();
}

}  // namespace quern::text::jinja

// The values that a template computes with: Python's, as far as Jinja shows them. A Value is a
// small copyable handle; what it points to is immutable (but for namespaces, loops and iterators)
// and lives in the Arena of the template or of the rendering.
//
// Strings know their origin: which of their bytes come from the request ("data") and which the
// template wrote itself. Only the latter may become control tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quern::text::jinja {

__extension__ typedef __int128 Int;  // Python's integers, as far as 128 bits hold them

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kView,  // a dict's keys, values or items, or what a filter such as `map` gives
  kRange,
  kDict,
  kNamespace,
  kMacro,
  kMethod,    // of a value: 'a'.upper
  kFunction,  // of the environment: range
  kLoop,
  kCycler,
  kJoiner,
};

// Bytes [begin, end) of a string.
struct Bytes {
  std::size_t begin, end;
};

enum class Origin : std::uint8_t { kTemplate, kData, kMixed };

struct Str {
  std::string_view text;
  Origin origin = Origin::kTemplate;
  bool markup = false;            // made by `safe` or `escape`: what is added to it gets escaped
  std::span<const Bytes> data{};  // of kMixed: what comes from the request, ascending, apart
};

struct Value;

// What is known of an undefined value: enough to tell what is wrong once it is used.
struct Missing {
  enum class Why : std::uint8_t { kName, kAttribute, kElement, kUnsafe, kReason } why;
  Kind owner = Kind::kUndefined;  // of kAttribute, kElement, kUnsafe
  std::string_view name{};        // or, of kReason, the whole text
};

struct Sequence;
struct Range;
struct Dict;
struct Namespace;
struct Macro;
struct Method;
struct Function;
struct Loop;
struct Cycler;
struct Joiner;

struct Value {
  Kind kind = Kind::kUndefined;
  union {
    bool boolean;
    Int integer;
    double real;
    const Str* string;
    const Missing* missing = nullptr;  // may be null: nothing more is known
    Sequence* sequence;                // of lists, tuples and views
    const Range* range;
    const Dict* dict;
    Namespace* space;
    const Macro* macro;
    const Method* method;
    const Function* function;
    Loop* loop;
    Cycler* cycler;
    Joiner* joiner;
  };

  bool is(Kind wanted) const { return kind == wanted; }
  bool is_undefined() const { return kind == Kind::kUndefined; }
  bool is_string() const { return kind == Kind::kString; }
  bool is_integral() const { return kind == Kind::kInt || kind == Kind::kBool; }
  bool is_number() const { return is_integral() || kind == Kind::kFloat; }
  bool is_sequence() const {
    return kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kView;
  }
  std::string_view text() const { return string->text; }  // Requires: is_string()
  Int as_int() const { return kind == Kind::kBool ? Int{boolean} : integer; }
  double as_double() const { return kind == Kind::kFloat ? real : static_cast<double>(as_int()); }
};

struct Sequence {
  std::span<const Value> items;
  const char* type = "list";  // of views: "dict_keys", "generator", …
  bool consumed = false;      // of views: passing over the items uses them up
  std::size_t next = 0;       // of those: how many were used up
};

struct Range {
  std::int64_t start, step, size;
  std::int64_t at(std::int64_t index) const { return start + index * step; }
};

struct Entry {
  Value key, value;
};

struct Dict {
  std::span<const Entry> entries;         // in order of insertion; keys differ
  std::span<const std::uint32_t> sorted;  // of larger ones: indices of entries by key
};

struct Cycler {
  std::span<const Value> items;
  std::size_t next = 0;
};

struct Joiner {
  const Str* separator;
  bool used = false;
};

inline Value none() {
  Value value;
  value.kind = Kind::kNone;
  return value;
}
inline Value boolean(bool is) {
  Value value;
  value.kind = Kind::kBool;
  value.boolean = is;
  return value;
}
inline Value integer(Int number) {
  Value value;
  value.kind = Kind::kInt;
  value.integer = number;
  return value;
}
inline Value real(double number) {
  Value value;
  value.kind = Kind::kFloat;
  value.real = number;
  return value;
}
inline Value string(const Str* text) {
  Value value;
  value.kind = Kind::kString;
  value.string = text;
  return value;
}
inline Value undefined(const Missing* why) {
  Value value;
  value.missing = why;
  return value;
}

// Python's name of the type: "str", "NoneType".
const char* type_name(const Value& value);
const char* type_name(Kind kind);

}  // namespace quern::text::jinja

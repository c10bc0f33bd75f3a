#include "text/jinja/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "text/jinja/objects.h"
#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

std::string_view shown_index(Runtime& runtime, const Value& key) {
  if (key.is_string()) return key.text();
  if (!key.is_integral()) return type_name(key);
  return runtime.text(fmt::format("{}", static_cast<std::int64_t>(key.as_int()))).text();
}

Value item_of(Runtime& runtime, const Value& value, std::int64_t index) {
  if (value.is_sequence()) return value.sequence->items[static_cast<std::size_t>(index)];
  if (value.is(Kind::kRange)) return integer(value.range->at(index));
  const Str& text = *value.string;
  const std::size_t begin = byte_of(text.text, static_cast<std::size_t>(index));
  return runtime.part(text, begin, begin + char_at(text.text, begin).size);
}

bool is_indexed(const Value& value) {
  return value.is(Kind::kList) || value.is(Kind::kTuple) || value.is(Kind::kRange) ||
         value.is_string();
}

bool sequences_equal(Runtime& runtime, std::span<const Value> a, std::span<const Value> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool dicts_equal(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const Entry& entry : a.entries) {
    const Value* other = find(runtime, b, entry.key);
    if (other == nullptr || !equal(runtime, entry.value, *other)) return false;
  }
  return true;
}

std::optional<Value> own_member(Runtime& runtime, const Value& value, std::string_view name) {
  switch (value.kind) {
    case Kind::kNamespace: {
      const Member* member = value.space->find(name);
      return member == nullptr ? std::nullopt : std::optional(member->value);
    }
    case Kind::kLoop: return loop_member(runtime, value.loop, name);
    case Kind::kMacro:
      if (name == "name") return string(value.macro->name);
      if (name == "arguments") return value.macro->parameter_names;
      if (name == "caller") return boolean(value.macro->syntax->uses_caller);
      if (name == "catch_varargs") return boolean(value.macro->syntax->uses_varargs);
      if (name == "catch_kwargs") return boolean(value.macro->syntax->uses_kwargs);
      return std::nullopt;
    case Kind::kCycler:
      if (name != "current") return std::nullopt;
      return value.cycler->items[value.cycler->next];
    case Kind::kRange:
      if (name == "start") return integer(value.range->start);
      if (name == "stop") return integer(value.range->at(value.range->size));
      if (name == "step") return integer(value.range->step);
      return std::nullopt;
    default: return std::nullopt;
  }
}

// A member of the type: a method, or what objects have. Private names are there but not to be used.
std::optional<Value> type_member(Runtime& runtime, const Value& value, const Str* name) {
  if (name->text.starts_with("__")) {
    return runtime.missing(Missing::Why::kUnsafe, value.kind, name->text);
  }
  if (const std::optional<Value> own = own_member(runtime, value, name->text)) return own;
  const MethodEntry* entry = find_method(value, name->text);
  if (entry == nullptr) return std::nullopt;
  if (entry->call == nullptr) {
    return runtime.missing(Missing::Why::kUnsafe, value.kind, name->text);
  }
  Value method;
  method.kind = Kind::kMethod;
  method.method = runtime.arena().make<Method>(entry, value);
  return method;
}

// value[key]; nullopt where there is no such element.
std::optional<Value> own_element(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is(Kind::kDict)) {
    const Value* found =
        key.is(Kind::kList) || key.is(Kind::kDict) ? nullptr : find(runtime, *value.dict, key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!is_indexed(value) || !key.is_integral()) return std::nullopt;
  const auto size = static_cast<Int>(*length(value));
  const Int index = key.as_int() < 0 ? key.as_int() + size : key.as_int();
  if (index < 0 || index >= size) return std::nullopt;
  if (value.is_string()) runtime.charge(value.text().size());
  return item_of(runtime, value, static_cast<std::int64_t>(index));
}

}  // namespace

const char* type_name(Kind kind) {
  switch (kind) {
    case Kind::kUndefined: return "undefined value";
    case Kind::kNone: return "none";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kView: return "view";
    case Kind::kRange: return "range";
    case Kind::kDict: return "dict";
    case Kind::kNamespace: return "namespace";
    case Kind::kMacro: return "macro";
    case Kind::kMethod: return "method";
    case Kind::kFunction: return "function";
    case Kind::kLoop: return "loop";
    case Kind::kCycler: return "cycler";
    case Kind::kJoiner: return "joiner";
  }
  return "value";
}

const char* type_name(const Value& value) {
  return value.is(Kind::kView) ? value.sequence->type : type_name(value.kind);
}

bool truth(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return value.boolean;
    case Kind::kInt: return value.integer != 0;
    case Kind::kFloat: return value.real != 0;
    default: {
      const std::optional<std::size_t> size =
          value.is_string() ? std::optional(value.text().size()) : length(value);
      return !size || *size > 0;
    }
  }
}

std::optional<std::size_t> length(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return count_chars(value.text());
    case Kind::kList:
    case Kind::kTuple: return value.sequence->items.size();
    case Kind::kView:
      if (value.sequence->consumed) return std::nullopt;
      return value.sequence->items.size();
    case Kind::kRange: return static_cast<std::size_t>(value.range->size);
    case Kind::kDict: return value.dict->entries.size();
    case Kind::kLoop: return value.loop->items.size();
    default: return std::nullopt;
  }
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() ||
         value.is(Kind::kDict) || value.is(Kind::kRange);
}

Items::Items(Runtime& runtime, const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined: break;
    case Kind::kList:
    case Kind::kTuple: lent_ = value.sequence->items; break;
    case Kind::kView:
      lent_ = value.sequence->items.subspan(value.sequence->next);
      if (value.sequence->consumed) value.sequence->next = value.sequence->items.size();
      break;
    case Kind::kRange:
      for (std::int64_t i = 0; i < value.range->size; ++i) {
        kept_.push_back(integer(value.range->at(i)));
      }
      break;
    case Kind::kDict:
      for (const Entry& entry : value.dict->entries) kept_.push_back(entry.key);
      break;
    case Kind::kString:
      for (std::size_t at = 0; at < value.text().size();) {
        const std::size_t size = char_at(value.text(), at).size;
        kept_.push_back(runtime.part(*value.string, at, at + size));
        at += size;
      }
      break;
    default: runtime.fail(fmt::format("a {} has no items to pass over", type_name(value)));
  }
  runtime.charge(kept_.size() * sizeof(Value));
}

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_int() == b.as_int()
                                              : a.as_double() == b.as_double();
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString: return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple: {
      const Runtime::Deeper deeper(runtime);
      return sequences_equal(runtime, a.sequence->items, b.sequence->items);
    }
    case Kind::kDict: {
      const Runtime::Deeper deeper(runtime);
      return dicts_equal(runtime, *a.dict, *b.dict);
    }
    case Kind::kRange:
      return a.range->size == b.range->size &&
             (a.range->size == 0 || (a.range->start == b.range->start &&
                                     (a.range->size == 1 || a.range->step == b.range->step)));
    default: return a.sequence == b.sequence;  // the same object
  }
}

int compare(Runtime& runtime, const Value& a, const Value& b, std::string_view symbol) {
  runtime.step();
  const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? order(a.as_int(), b.as_int())
                                              : order(a.as_double(), b.as_double());
  }
  if (a.is_undefined()) runtime.fail_undefined(a);
  if (b.is_undefined()) runtime.fail_undefined(b);
  if (a.is_string() && b.is_string()) return order(a.text(), b.text());
  if (a.kind != b.kind || (!a.is(Kind::kList) && !a.is(Kind::kTuple))) {
    runtime.fail(
        fmt::format("'{}' does not compare a {} with a {}", symbol, type_name(a), type_name(b)));
  }
  const Runtime::Deeper deeper(runtime);
  const std::span<const Value> left = a.sequence->items, right = b.sequence->items;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!equal(runtime, left[i], right[i])) return compare(runtime, left[i], right[i], symbol);
  }
  return order(left.size(), right.size());
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      runtime.fail(fmt::format("'in' looks for a str in a str, not for a {}", type_name(item)));
    }
    runtime.charge(container.text().size());
    return container.text().find(item.text()) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) return find(runtime, *container.dict, item) != nullptr;
  if (!is_iterable(container)) {
    runtime.fail(fmt::format("'in' cannot look into a {}", type_name(container)));
  }
  for (const Value& other : Items(runtime, container)) {
    if (equal(runtime, other, item)) return true;
  }
  return false;
}

Value attribute(Runtime& runtime, const Value& value, const Str* name) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (value.is(Kind::kDict)) {
    // A key of a method's name is out of reach here, as in Python.
    const bool method = find_method(value, name->text) != nullptr;
    const Value* found = method ? nullptr : find(*value.dict, name->text);
    if (found != nullptr) return *found;
  }
  return member(runtime, value, name);
}

Value member(Runtime& runtime, const Value& value, const Str* name) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (const std::optional<Value> found = type_member(runtime, value, name)) return *found;
  return runtime.missing(Missing::Why::kAttribute, value.kind, name->text);
}

Value element(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (const std::optional<Value> found = own_element(runtime, value, key)) return *found;
  if (key.is_string()) return member(runtime, value, key.string);
  return runtime.missing(Missing::Why::kElement, value.kind, shown_index(runtime, key));
}

Value slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
            const Value& step) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!is_indexed(value)) {
    runtime.fail(fmt::format("a {} has no slices", type_name(value)));
  }
  const auto size = static_cast<std::int64_t>(*length(value));
  const std::int64_t stride =
      step.is(Kind::kNone) ? 1 : index_of(runtime, step, "the step of a slice");
  if (stride == 0) runtime.fail("the step of a slice is 0");
  // A bound as Python clips it, for either direction.
  const auto bound = [&](const Value& given, std::int64_t absent) {
    if (given.is(Kind::kNone)) return absent;
    std::int64_t index = index_of(runtime, given, "a bound of a slice");
    if (index < 0) index += size;
    return stride > 0 ? std::clamp<std::int64_t>(index, 0, size)
                      : std::clamp<std::int64_t>(index, -1, size - 1);
  };
  const std::int64_t first = bound(start, stride > 0 ? 0 : size - 1);
  const std::int64_t last = bound(stop, stride > 0 ? size : -1);
  if (value.is_string() && stride == 1) {
    const Str& text = *value.string;
    runtime.charge(text.text.size());
    if (last <= first) return runtime.part(text, 0, 0);
    const std::size_t begin = byte_of(text.text, static_cast<std::size_t>(first));
    return runtime.part(
        text, begin,
        begin + byte_of(text.text.substr(begin), static_cast<std::size_t>(last - first)));
  }
  std::vector<Value> chosen;
  const Items items(runtime, value);
  for (std::int64_t i = first; stride > 0 ? i < last : i > last; i += stride) {
    chosen.push_back(items.all()[static_cast<std::size_t>(i)]);
    if (stride > size || stride < -size) break;
  }
  if (value.is(Kind::kTuple)) return runtime.tuple(chosen);
  if (!value.is_string()) return runtime.list(chosen);
  MarkedText text;
  for (const Value& item : chosen) text.append(*item.string);
  return runtime.text(text);
}

std::int64_t index_of(Runtime& runtime, const Value& value, std::string_view what) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!value.is_integral()) {
    runtime.fail(fmt::format("{} is a {}, not an int", what, type_name(value)));
  }
  // What lies beyond is beyond the end of everything.
  constexpr Int kFar = std::numeric_limits<std::int64_t>::max() / 4;
  return static_cast<std::int64_t>(std::clamp<Int>(value.as_int(), -kFar, kFar));
}

}  // namespace quern::text::jinja

#include "text/jinja/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <numeric>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/jinja/position.h"

namespace quern::text::jinja {
namespace {

constexpr std::size_t kScanned = 8;  // entries that are looked through without an index

// The kinds of keys, apart from each other; numbers are one kind.
int key_kind(Runtime& runtime, const Value& key) {
  switch (key.kind) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat: return 0;
    case Kind::kString: return 1;
    case Kind::kNone: return 2;
    case Kind::kTuple: return 3;
    case Kind::kUndefined: return 4;
    default: runtime.fail(fmt::format("a {} cannot be a key", type_name(key)));
  }
}

// An order of keys in which exactly the equal ones are equivalent.
int compare_keys(Runtime& runtime, const Value& a, const Value& b) {
  const int kind = key_kind(runtime, a);
  if (const int other = key_kind(runtime, b); kind != other) return kind < other ? -1 : 1;
  const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (kind == 1) return order(a.text(), b.text());
  if (kind == 0) {
    return a.is_integral() && b.is_integral() ? order(a.as_int(), b.as_int())
                                              : order(a.as_double(), b.as_double());
  }
  if (kind != 3) return 0;
  const Runtime::Deeper deeper(runtime);
  const std::span<const Value> left = a.sequence->items, right = b.sequence->items;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (const int found = compare_keys(runtime, left[i], right[i]); found != 0) return found;
  }
  return order(left.size(), right.size());
}

}  // namespace

Runtime::Runtime(std::string_view source, const Limits& limits, const std::tm& now)
    : source_(source), limits_(limits), now_(now), arena_(limits.memory_bytes, [this] {
        stop(fmt::format("its values take more than {} MiB", limits_.memory_bytes >> 20));
      }) {}

void Runtime::fail(std::string_view reason) const {
  fail_at(errors::kChatTemplateFailed, source_, at_, reason);
}

void Runtime::refuse(std::string_view reason) const {
  fail_at(errors::kChatTemplateRefused, source_, at_, reason);
}

void Runtime::stop(std::string_view limit) const {
  fail_at(errors::kChatTemplateLimit, source_, at_, limit);
}

void Runtime::stop_steps() const {
  stop(fmt::format("it takes more than {} steps", limits_.steps));
}

void Runtime::stop_depth() const {
  stop(fmt::format("more than {} expressions, blocks and calls are nested", limits_.depth));
}

void Runtime::fail_undefined(const Value& value) const {
  const Missing* missing = value.missing;
  if (missing == nullptr) fail("a value is used that is undefined");
  switch (missing->why) {
    case Missing::Why::kName: fail(fmt::format("'{}' is undefined", missing->name));
    case Missing::Why::kAttribute:
      fail(fmt::format("the {} has no member '{}'", type_name(missing->owner), missing->name));
    case Missing::Why::kElement:
      fail(fmt::format("the {} has no element {}", type_name(missing->owner), missing->name));
    case Missing::Why::kUnsafe:
      fail(fmt::format("a template may not use '{}' of a {}", missing->name,
                       type_name(missing->owner)));
    case Missing::Why::kReason: break;
  }
  fail(missing->name);
}

void Runtime::check_size(std::size_t bytes) const {
  if (bytes > limits_.text_bytes) {
    stop(fmt::format("a text gets larger than {} MiB", limits_.text_bytes >> 20));
  }
}

void Runtime::check_product(std::size_t bytes, Int times) const {
  if (times > 0 && bytes > 0 && times > static_cast<Int>(limits_.text_bytes / bytes)) {
    check_size(limits_.text_bytes + 1);
  }
}

Value Runtime::text(std::string_view text, bool data) {
  check_size(text.size());
  charge(text.size());
  return string(arena_.make<Str>(arena_.copy(text), data ? Origin::kData : Origin::kTemplate));
}

Value Runtime::text(const MarkedText& text) {
  const std::vector<Bytes>& data = text.data();
  if (data.empty()) return this->text(text.bytes());
  if (data.size() == 1 && data[0].begin == 0 && data[0].end == text.size()) {
    return this->text(text.bytes(), true);
  }
  check_size(text.size());
  charge(text.size());
  return string(arena_.make<Str>(arena_.copy(std::string_view(text.bytes())), Origin::kMixed, false,
                                 arena_.copy(data)));
}

Value Runtime::part(const Str& text, std::size_t begin, std::size_t end) {
  step();
  const std::string_view bytes = text.text.substr(begin, end - begin);
  if (text.origin != Origin::kMixed) {
    return string(arena_.make<Str>(bytes, text.origin, text.markup));
  }
  std::vector<Bytes> data;
  for (const Bytes& span : text.data) {
    const std::size_t first = std::max(span.begin, begin), last = std::min(span.end, end);
    if (first < last) data.push_back({first - begin, last - begin});
  }
  charge(text.data.size() * sizeof(Bytes));
  const Origin origin = data.empty() ? Origin::kTemplate : Origin::kMixed;
  return string(arena_.make<Str>(bytes, origin, text.markup, arena_.copy(data)));
}

Value Runtime::retold(const Str& like, std::string_view text) {
  const Origin origin = like.origin == Origin::kTemplate ? Origin::kTemplate : Origin::kData;
  return string(arena_.make<Str>(text, origin, like.markup));
}

Value Runtime::list(const std::vector<Value>& items) {
  Value value;
  value.kind = Kind::kList;
  value.sequence = arena_.make<Sequence>(arena_.copy(items));
  charge(items.size() * sizeof(Value));
  return value;
}

Value Runtime::tuple(const std::vector<Value>& items) {
  Value value = list(items);
  value.kind = Kind::kTuple;
  value.sequence->type = "tuple";
  return value;
}

Value Runtime::view(const std::vector<Value>& items, const char* type, bool consumed) {
  Value value = list(items);
  value.kind = Kind::kView;
  value.sequence->type = type;
  value.sequence->consumed = consumed;
  return value;
}

Value Runtime::dict(const std::vector<Entry>& entries) {
  charge(entries.size() * sizeof(Entry));
  std::vector<Entry> kept;
  std::vector<std::uint32_t> sorted;
  if (entries.size() <= kScanned) {
    for (const Entry& entry : entries) {
      const auto known = std::find_if(kept.begin(), kept.end(), [&](const Entry& other) {
        return compare_keys(*this, other.key, entry.key) == 0;
      });
      if (known == kept.end()) {
        kept.push_back(entry);
      } else {
        known->value = entry.value;
      }
    }
    if (kept.size() == 1) key_kind(*this, kept[0].key);
  } else {
    std::vector<std::uint32_t> order(entries.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return compare_keys(*this, entries[a].key, entries[b].key) < 0;
    });
    // Of each run of equal keys: the place of the first, the value of the last.
    std::vector<std::uint32_t> last(entries.size());
    std::vector<bool> first(entries.size(), false);
    for (std::size_t i = 0, begin = 0; i < order.size(); ++i) {
      if (compare_keys(*this, entries[order[begin]].key, entries[order[i]].key) != 0) begin = i;
      first[order[i]] = begin == i;
      last[order[begin]] = order[i];
    }
    std::vector<std::uint32_t> place(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (!first[i]) continue;
      place[i] = static_cast<std::uint32_t>(kept.size());
      kept.push_back({entries[i].key, entries[last[i]].value});
    }
    for (const std::uint32_t index : order) {
      if (first[index]) sorted.push_back(place[index]);
    }
  }
  Value value;
  value.kind = Kind::kDict;
  value.dict = arena_.make<Dict>(arena_.copy(kept), arena_.copy(sorted));
  return value;
}

Value Runtime::missing(Missing::Why why, Kind owner, std::string_view name) {
  return undefined(arena_.make<Missing>(why, owner, name));
}

Parameters::Parameters(Runtime& runtime, std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, std::size_t required) {
  if (arguments.positional.size() > names.size()) {
    runtime.fail(fmt::format("{} takes at most {} arguments", function, names.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = &arguments.positional[i];
  }
  for (const Keyword& keyword : arguments.keywords) {
    const auto found = std::find(names.begin(), names.end(), keyword.name);
    if (found == names.end()) {
      runtime.fail(fmt::format("{} has no parameter '{}'", function, keyword.name));
    }
    const Value*& value = values_[found - names.begin()];
    if (value != nullptr) {
      runtime.fail(fmt::format("{} gets its '{}' twice", function, keyword.name));
    }
    value = &keyword.value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!has(i)) runtime.fail(fmt::format("{} needs its '{}'", function, names.begin()[i]));
  }
}

const Value* find(Runtime& runtime, const Dict& dict, const Value& key) {
  if (key.is_string()) return find(dict, key.text());
  key_kind(runtime, key);
  for (const Entry& entry : dict.entries) {
    if (compare_keys(runtime, entry.key, key) == 0) return &entry.value;
  }
  runtime.charge(dict.entries.size_bytes());
  return nullptr;
}

const Value* find(const Dict& dict, std::string_view key) {
  if (dict.sorted.empty()) {
    for (const Entry& entry : dict.entries) {
      if (entry.key.is_string() && entry.key.text() == key) return &entry.value;
    }
    return nullptr;
  }
  // Numbers stand before the texts, everything else behind them.
  const auto before = [&](std::uint32_t index, std::string_view wanted) {
    const Value& other = dict.entries[index].key;
    return other.is_number() || (other.is_string() && other.text() < wanted);
  };
  const auto found = std::lower_bound(dict.sorted.begin(), dict.sorted.end(), key, before);
  if (found == dict.sorted.end()) return nullptr;
  const Entry& entry = dict.entries[*found];
  return entry.key.is_string() && entry.key.text() == key ? &entry.value : nullptr;
}

}  // namespace quern::text::jinja

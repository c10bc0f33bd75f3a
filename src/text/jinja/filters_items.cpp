// Filters on lists, dicts and whatever else has items.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/numbers.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/protocol.h"
#include "text/jinja/string_ops.h"
#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

Value reason(Runtime& runtime, std::string_view text) {
  return runtime.missing(Missing::Why::kReason, Kind::kUndefined, text);
}

Value without_case(Runtime& runtime, const Value& value) {
  return value.is_string() ? cased(runtime, *value.string, Case::kLower) : value;
}

// Reads members of items by a path such as "function.name" or "0.id", or by a number.
class Getter {
 public:
  Getter(Runtime& runtime, const Value& path) : runtime_(runtime) {
    if (path.is(Kind::kNone)) return;
    if (!path.is_string()) {
      steps_.push_back(path);
      return;
    }
    for (const Value& step : split(runtime, *path.string, ".", -1, false)) {
      const bool digits =
          !step.text().empty() && std::all_of(step.text().begin(), step.text().end(),
                                              [](char c) { return c >= '0' && c <= '9'; });
      const std::optional<Int> index = digits ? parse_int(step.text(), 10) : std::nullopt;
      steps_.push_back(index ? integer(*index) : step);
    }
  }

  void set_default(const Value& value) { default_ = value; }
  void ignore_case(bool ignore) { ignore_case_ = ignore; }

  Value operator()(Value item) const {
    for (const Value& step : steps_) {
      item = element(runtime_, item, step);
      if (item.is_undefined() && default_) item = *default_;
    }
    return ignore_case_ ? without_case(runtime_, item) : item;
  }

 private:
  Runtime& runtime_;
  std::vector<Value> steps_;
  std::optional<Value> default_;
  bool ignore_case_ = false;
};

Value do_join(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "join", arguments, {"d", "attribute"}, 0);
  const Getter getter(runtime, given.get(1, none()));
  std::vector<Value> texts;
  for (const Value& item : Items(runtime, value)) texts.push_back(to_text(runtime, getter(item)));
  return joined(runtime, *to_text(runtime, given.get(0, runtime.text(""))).string, texts);
}

Value do_list(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "list", arguments, {}, 0);
  const Items items(runtime, value);
  return runtime.list({items.begin(), items.end()});
}

Value do_items(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "items", arguments, {}, 0);
  std::vector<Value> pairs;
  if (!value.is_undefined()) {
    if (!value.is(Kind::kDict)) runtime.fail(fmt::format("items takes no {}", type_name(value)));
    for (const Entry& entry : value.dict->entries) {
      pairs.push_back(runtime.tuple({entry.key, entry.value}));
    }
  }
  return runtime.view(pairs, "generator", true);
}

Value do_first(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "first", arguments, {}, 0);
  const bool iterator = value.is(Kind::kView) && value.sequence->consumed;
  const std::size_t before = iterator ? value.sequence->next : 0;
  const Items items(runtime, value);
  if (items.size() == 0) return reason(runtime, "there is no first item, the sequence is empty");
  if (iterator) value.sequence->next = before + 1;
  return items.all().front();
}

Value do_last(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "last", arguments, {}, 0);
  if (value.is(Kind::kView) && value.sequence->consumed) {
    runtime.fail("last needs a sequence; make a list of it first");
  }
  const Items items(runtime, value);
  if (items.size() == 0) return reason(runtime, "there is no last item, the sequence is empty");
  return items.all().back();
}

Value do_reverse(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "reverse", arguments, {}, 0);
  const bool iterator = value.is(Kind::kView) && value.sequence->consumed;
  const Items items(runtime, value);
  const std::vector<Value> reversed(items.all().rbegin(), items.all().rend());
  if (value.is_string()) return joined(runtime, Str{}, reversed);
  return iterator ? runtime.list(reversed) : runtime.view(reversed, "list_reverseiterator", true);
}

// Sorts `items` by keys, equal ones staying in order.
void sort_by(Runtime& runtime, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  runtime.charge(keyed.size() * sizeof(Value));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return (reverse ? compare(runtime, b.first, a.first, "<")
                    : compare(runtime, a.first, b.first, "<")) < 0;
  });
}

std::vector<Value> seconds(const std::vector<std::pair<Value, Value>>& keyed) {
  std::vector<Value> values;
  for (const auto& [key, value] : keyed) values.push_back(value);
  return values;
}

Value do_sort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0);
  const Value path = given.get(2, none());
  std::vector<Getter> getters;
  if (path.is_string()) {
    for (const Value& one : split(runtime, *path.string, ",", -1, false)) {
      getters.emplace_back(runtime, one);
    }
  } else {
    getters.emplace_back(runtime, path);
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : Items(runtime, value)) {
    std::vector<Value> keys;
    for (Getter& getter : getters) {
      getter.ignore_case(!truth(given.get(1, boolean(false))));
      keys.push_back(getter(item));
    }
    keyed.emplace_back(keys.size() == 1 ? keys[0] : runtime.list(keys), item);
  }
  sort_by(runtime, keyed, truth(given.get(0, boolean(false))));
  return runtime.list(seconds(keyed));
}

Value do_dictsort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0);
  const Value by = given.get(1, runtime.text("key"));
  const bool by_key = by.is_string() && by.text() == "key";
  if (!by_key && !(by.is_string() && by.text() == "value")) {
    runtime.fail("dictsort sorts by 'key' or 'value'");
  }
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!value.is(Kind::kDict)) runtime.fail(fmt::format("dictsort takes no {}", type_name(value)));
  const bool case_sensitive = truth(given.get(0, boolean(false)));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Entry& entry : value.dict->entries) {
    const Value key = by_key ? entry.key : entry.value;
    keyed.emplace_back(case_sensitive ? key : without_case(runtime, key),
                       runtime.tuple({entry.key, entry.value}));
  }
  sort_by(runtime, keyed, truth(given.get(2, boolean(false))));
  return runtime.list(seconds(keyed));
}

Value do_unique(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "unique", arguments, {"case_sensitive", "attribute"}, 0);
  Getter getter(runtime, given.get(1, none()));
  getter.ignore_case(!truth(given.get(0, boolean(false))));
  std::vector<Entry> entries;  // a dict finds the equal ones
  std::vector<Value> items;
  for (const Value& item : Items(runtime, value)) {
    entries.push_back({getter(item), integer(static_cast<std::int64_t>(items.size()))});
    items.push_back(item);
  }
  // Of equal keys the dict keeps the last value, so it is filled from behind.
  std::reverse(entries.begin(), entries.end());
  std::vector<std::int64_t> chosen;
  const Value dict = runtime.dict(entries);
  for (const Entry& entry : dict.dict->entries) {
    chosen.push_back(static_cast<std::int64_t>(entry.value.integer));
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<Value> unique;
  for (const std::int64_t index : chosen) unique.push_back(items[static_cast<std::size_t>(index)]);
  return runtime.view(unique, "generator", true);
}

template <bool kLargest>
Value do_extreme(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "the filter", arguments, {"case_sensitive", "attribute"}, 0);
  Getter getter(runtime, given.get(1, none()));
  getter.ignore_case(!truth(given.get(0, boolean(false))));
  const Items items(runtime, value);
  if (items.size() == 0) return reason(runtime, "there is no such item, the sequence is empty");
  Value best = items.all()[0], key = getter(best);
  for (const Value& item : items.all().subspan(1)) {
    const Value other = getter(item);
    const int order = compare(runtime, other, key, kLargest ? ">" : "<");
    if (kLargest ? order <= 0 : order >= 0) continue;
    best = item;
    key = other;
  }
  return best;
}

Value do_sum(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "sum", arguments, {"attribute", "start"}, 0);
  const Getter getter(runtime, given.get(0, none()));
  Value sum = given.get(1, integer(0));
  if (sum.is_string()) runtime.fail("sum does not add texts; join does");
  for (const Value& item : Items(runtime, value)) {
    sum = arithmetic(runtime, ExprKind::kAdd, sum, getter(item));
  }
  return sum;
}

Value do_groupby(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "groupby", arguments, {"attribute", "default", "case_sensitive"},
                         1);
  Getter getter(runtime, given[0]);
  if (given.has(1) && !given[1].is(Kind::kNone)) getter.set_default(given[1]);
  Getter key_of = getter;
  key_of.ignore_case(!truth(given.get(2, boolean(false))));
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : Items(runtime, value)) keyed.emplace_back(key_of(item), item);
  sort_by(runtime, keyed, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0, i = 0; i < keyed.size(); begin = i) {
    std::vector<Value> members;
    for (; i < keyed.size() && equal(runtime, keyed[i].first, keyed[begin].first); ++i) {
      members.push_back(keyed[i].second);
    }
    if (members.empty()) members.push_back(keyed[i++].second);  // a key not equal to itself: NaN
    groups.push_back(runtime.tuple({getter(members[0]), runtime.list(members)}));
  }
  return runtime.list(groups);
}

Value do_batch(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "batch", arguments, {"linecount", "fill_with"}, 1);
  const auto size = static_cast<std::size_t>(
      std::max<std::int64_t>(1, index_of(runtime, given[0], "the size of batch")));
  const Items items(runtime, value);
  std::vector<Value> batches;
  for (std::size_t begin = 0; begin < items.size(); begin += size) {
    const auto part = items.all().subspan(begin, std::min(size, items.size() - begin));
    std::vector<Value> batch(part.begin(), part.end());
    if (given.has(1) && !given[1].is(Kind::kNone)) {
      runtime.check_product(sizeof(Value), static_cast<Int>(size));
      batch.resize(size, given[1]);
    }
    batches.push_back(runtime.list(batch));
  }
  return runtime.view(batches, "generator", true);
}

Value do_slice(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t count = index_of(runtime, given[0], "the number of slices");
  if (count < 1) runtime.fail("the number of slices is less than 1");
  runtime.check_product(sizeof(Value), count);
  const Items items(runtime, value);
  const std::size_t slices = static_cast<std::size_t>(count), each = items.size() / slices;
  const std::size_t longer = items.size() % slices;
  std::vector<Value> all;
  for (std::size_t i = 0, begin = 0; i < slices; ++i) {
    const std::size_t size = each + (i < longer);
    const auto part = items.all().subspan(begin, size);
    std::vector<Value> slice(part.begin(), part.end());
    if (given.has(1) && !given[1].is(Kind::kNone) && i >= longer) slice.push_back(given[1]);
    all.push_back(runtime.list(slice));
    begin += size;
  }
  return runtime.view(all, "generator", true);
}

Value do_attr(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "attr", arguments, {"name"}, 1);
  return member(runtime, value, to_text(runtime, given[0]).string);
}

// The arguments behind the first `count`.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  const auto end = rest.positional.begin() +
                   static_cast<std::ptrdiff_t>(std::min(count, rest.positional.size()));
  rest.positional.erase(rest.positional.begin(), end);
  return rest;
}

Value do_map(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Runtime::Deeper deeper(runtime);
  std::vector<Value> mapped;
  if (arguments.positional.empty()) {
    const Parameters given(runtime, "map", arguments, {"attribute", "default"}, 1);
    Getter getter(runtime, given[0]);
    if (given.has(1)) getter.set_default(given[1]);
    if (truth(value)) {
      for (const Value& item : Items(runtime, value)) mapped.push_back(getter(item));
    }
    return runtime.view(mapped, "generator", true);
  }
  const Value& name = arguments.positional[0];
  const Filter* filter = name.is_string() ? find_filter(name.text()) : nullptr;
  if (filter == nullptr) runtime.fail("map needs the name of a filter");
  const Arguments rest = rest_of(arguments, 1);
  if (truth(value)) {
    for (const Value& item : Items(runtime, value)) {
      mapped.push_back(filter->apply(runtime, item, rest));
    }
  }
  return runtime.view(mapped, "generator", true);
}

template <bool kByAttribute, bool kWanted>
Value do_select(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Runtime::Deeper deeper(runtime);
  constexpr std::size_t kFirst = kByAttribute ? 1 : 0;
  if (arguments.positional.size() < kFirst) runtime.fail("the name of a member is missing");
  const Getter getter(runtime, kByAttribute ? arguments.positional[0] : none());
  const Test* test = nullptr;
  if (arguments.positional.size() > kFirst) {
    const Value& name = arguments.positional[kFirst];
    test = name.is_string() ? find_test(name.text()) : nullptr;
    if (test == nullptr) runtime.fail("there is no test of that name");
  }
  const Arguments rest = rest_of(arguments, kFirst + 1);
  std::vector<Value> chosen;
  if (truth(value)) {
    for (const Value& item : Items(runtime, value)) {
      const Value tested = getter(item);
      const bool holds = test == nullptr ? truth(tested) : test->holds(runtime, tested, rest);
      if (holds == kWanted) chosen.push_back(item);
    }
  }
  return runtime.view(chosen, "generator", true);
}

constexpr auto kFilters = std::to_array<Filter>({
    {"join", do_join},
    {"list", do_list},
    {"items", do_items},
    {"map", do_map},
    {"selectattr", do_select<true, true>},
    {"rejectattr", do_select<true, false>},
    {"select", do_select<false, true>},
    {"reject", do_select<false, false>},
    {"first", do_first},
    {"last", do_last},
    {"dictsort", do_dictsort},
    {"sort", do_sort},
    {"reverse", do_reverse},
    {"unique", do_unique},
    {"min", do_extreme<false>},
    {"max", do_extreme<true>},
    {"sum", do_sum},
    {"groupby", do_groupby},
    {"batch", do_batch},
    {"slice", do_slice},
    {"attr", do_attr},
});

}  // namespace

std::span<const Filter> item_filters() { return kFilters; }

}  // namespace quern::text::jinja

// The functions that every template finds in its environment, and what it sees of a loop.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "text/jinja/format.h"
#include "text/jinja/objects.h"
#include "text/jinja/protocol.h"

namespace quern::text::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;

Value do_range(Runtime& runtime, const Arguments& arguments) {
  const Parameters given(runtime, "range", arguments, {"start", "stop", "step"}, 1);
  const auto number = [&](std::size_t index) {
    return index_of(runtime, given[index], "an argument of range");
  };
  const std::int64_t start = given.has(1) ? number(0) : 0,
                     stop = given.has(1) ? number(1) : number(0);
  const std::int64_t step = given.has(2) ? number(2) : 1;
  if (step == 0) runtime.fail("the step of range is 0");
  const std::int64_t distance = step > 0 ? stop - start : start - stop;
  const std::int64_t stride = step > 0 ? step : -step;
  const std::int64_t size = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  if (size > kMaxRange) {
    runtime.stop(fmt::format("a range has more than {} numbers", kMaxRange));
  }
  Value value;
  value.kind = Kind::kRange;
  value.range = runtime.arena().make<Range>(start, step, size);
  return value;
}

// The entries of what dict() and namespace() take: a dict or pairs, then keywords.
std::vector<Entry> entries_of(Runtime& runtime, const Arguments& arguments) {
  std::vector<Entry> entries;
  if (arguments.positional.size() > 1) runtime.fail("at most one value is expected, then names");
  for (const Value& first : arguments.positional) {
    if (first.is(Kind::kDict)) {
      entries.assign(first.dict->entries.begin(), first.dict->entries.end());
      continue;
    }
    for (const Value& pair : Items(runtime, first)) {
      const Items two(runtime, pair);
      if (two.size() != 2) runtime.fail("pairs of key and value are expected");
      entries.push_back({two.all()[0], two.all()[1]});
    }
  }
  for (const Keyword& keyword : arguments.keywords) {
    entries.push_back({runtime.text(keyword.name), keyword.value});
  }
  return entries;
}

Value do_dict(Runtime& runtime, const Arguments& arguments) {
  return runtime.dict(entries_of(runtime, arguments));
}

Value do_namespace(Runtime& runtime, const Arguments& arguments) {
  Value value;
  value.kind = Kind::kNamespace;
  value.space = runtime.arena().make<Namespace>();
  for (const Entry& entry : entries_of(runtime, arguments)) {
    if (!entry.key.is_string()) runtime.fail("the names of a namespace are texts");
    value.space->set(runtime.arena(), entry.key.string, entry.value);
  }
  return value;
}

Value do_cycler(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.keywords.empty()) {
    runtime.fail("cycler needs values to go through");
  }
  Value value;
  value.kind = Kind::kCycler;
  value.cycler = runtime.arena().make<Cycler>(runtime.arena().copy(arguments.positional));
  return value;
}

Value do_joiner(Runtime& runtime, const Arguments& arguments) {
  const Parameters given(runtime, "joiner", arguments, {"sep"}, 0);
  Value value;
  value.kind = Kind::kJoiner;
  value.joiner =
      runtime.arena().make<Joiner>(to_text(runtime, given.get(0, runtime.text(", "))).string);
  return value;
}

Value do_raise(Runtime& runtime, const Arguments& arguments) {
  const Parameters given(runtime, "raise_exception", arguments, {"message"}, 1);
  runtime.refuse(to_text(runtime, given[0]).text());
}

Value do_strftime(Runtime& runtime, const Arguments& arguments) {
  const Parameters given(runtime, "strftime_now", arguments, {"format"}, 1);
  if (!given[0].is_string()) runtime.fail("the format of strftime_now is a str");
  const std::string format(given[0].text());
  if (format.empty() || format.size() > 256) {
    if (format.empty()) return given[0];
    runtime.fail("the format of strftime_now is too long");
  }
  char text[4096];
  const std::size_t size = std::strftime(text, sizeof text, format.c_str(), &runtime.now());
  return runtime.text({text, size}, given[0].string->origin != Origin::kTemplate);
}

constexpr auto kFunctions = std::to_array<Function>({
    {"range", do_range},
    {"dict", do_dict},
    {"namespace", do_namespace},
    {"cycler", do_cycler},
    {"joiner", do_joiner},
    {"raise_exception", do_raise},
    {"strftime_now", do_strftime},
});

}  // namespace

const Function* find_function(std::string_view name) {
  const auto found = std::find_if(kFunctions.begin(), kFunctions.end(),
                                  [name](const Function& item) { return item.name == name; });
  return found == kFunctions.end() ? nullptr : &*found;
}

std::optional<Value> loop_member(Runtime& runtime, Loop* loop, std::string_view name) {
  const auto number = [](std::size_t value) { return integer(static_cast<Int>(value)); };
  const std::size_t index = loop->index, size = loop->items.size();
  if (name == "index0") return number(index);
  if (name == "index") return number(index + 1);
  if (name == "first") return boolean(index == 0);
  if (name == "last") return boolean(index + 1 == size);
  if (name == "length") return number(size);
  if (name == "revindex") return number(size - index);
  if (name == "revindex0") return number(size - index - 1);
  if (name == "depth") return integer(loop->depth + 1);
  if (name == "depth0") return integer(loop->depth);
  if (name == "previtem") {
    if (index > 0) return loop->items[index - 1];
    return runtime.missing(Missing::Why::kReason, Kind::kLoop, "there is no item before the first");
  }
  if (name == "nextitem") {
    if (index + 1 < size) return loop->items[index + 1];
    return runtime.missing(Missing::Why::kReason, Kind::kLoop, "there is no item behind the last");
  }
  return std::nullopt;
}

}  // namespace quern::text::jinja

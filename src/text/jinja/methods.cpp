// The methods of str, list, tuple, dict and the environment's objects. Those that would change
// their value stand here without code: a template may not call them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/format.h"
#include "text/jinja/objects.h"
#include "text/jinja/protocol.h"
#include "text/jinja/string_ops.h"
#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

const Str& text_argument(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!value.is_string()) {
    runtime.fail(fmt::format("a str is expected, this is a {}", type_name(value)));
  }
  return *value.string;
}

template <Side kSide>
Value str_strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "strip", arguments, {"chars"}, 0);
  const bool any = given.has(0) && !given[0].is(Kind::kNone);
  return stripped(runtime, *self.string, any ? &text_argument(runtime, given[0]) : nullptr, kSide);
}

template <Case kWanted>
Value str_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "the method", arguments, {}, 0);
  return cased(runtime, *self.string, kWanted);
}

Value str_capitalize(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "capitalize", arguments, {}, 0);
  return capitalized(runtime, *self.string);
}

// Each character in a case that `choose` picks from it and whether a letter stands before it.
template <typename Choose>
Value recased(Runtime& runtime, const Str& text, Choose choose) {
  MarkedText out;
  bool after_letter = false;
  for (std::size_t at = 0; at < text.text.size();) {
    const Char c = char_at(text.text, at);
    const Str& one = *runtime.part(text, at, at + c.size).string;
    out.append(*cased(runtime, one, choose(c.code, after_letter)).string);
    after_letter = is_upper(c.code) || is_lower(c.code) || is_alpha(c.code);
    at += c.size;
  }
  return runtime.text(out);
}

Value str_title(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "title", arguments, {}, 0);
  return recased(runtime, *self.string,
                 [](char32_t, bool after) { return after ? Case::kLower : Case::kTitle; });
}

Value str_swapcase(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "swapcase", arguments, {}, 0);
  return recased(runtime, *self.string,
                 [](char32_t code, bool) { return is_upper(code) ? Case::kLower : Case::kUpper; });
}

Value str_replace(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "replace", arguments, {"old", "new", "count"}, 2);
  return replaced(runtime, *self.string, text_argument(runtime, given[0]),
                  text_argument(runtime, given[1]),
                  index_of(runtime, given.get(2, integer(-1)), "the count of replace"));
}

template <bool kFromRight>
Value str_split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "split", arguments, {"sep", "maxsplit"}, 0);
  const std::int64_t limit = index_of(runtime, given.get(1, integer(-1)), "the limit of split");
  if (!given.has(0) || given[0].is(Kind::kNone)) {
    return runtime.list(split_words(runtime, *self.string, limit, kFromRight));
  }
  return runtime.list(
      split(runtime, *self.string, text_argument(runtime, given[0]).text, limit, kFromRight));
}

Value str_splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "splitlines", arguments, {"keepends"}, 0);
  return runtime.list(split_lines(runtime, *self.string, truth(given.get(0, boolean(false)))));
}

template <bool kFromRight>
Value str_partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "partition", arguments, {"sep"}, 1);
  const Str &text = *self.string, &separator = text_argument(runtime, given[0]);
  if (separator.text.empty()) runtime.fail("the separator of partition is empty");
  runtime.charge(text.text.size());
  const std::size_t at =
      kFromRight ? text.text.rfind(separator.text) : text.text.find(separator.text);
  if (at == std::string_view::npos) {
    const Value empty = runtime.text("");
    return kFromRight ? runtime.tuple({empty, empty, self}) : runtime.tuple({self, empty, empty});
  }
  const std::size_t end = at + separator.text.size();
  return runtime.tuple(
      {runtime.part(text, 0, at), given[0], runtime.part(text, end, text.text.size())});
}

// The part of the text that start and end, both optional, leave; its first byte is in `begin`.
std::string_view window(Runtime& runtime, const Str& text, const Parameters& given,
                        std::size_t first, std::size_t& begin) {
  const auto size = static_cast<std::int64_t>(count_chars(text.text));
  runtime.charge(text.text.size());
  const auto bound = [&](std::size_t index, std::int64_t absent) {
    if (!given.has(index) || given[index].is(Kind::kNone)) return absent;
    const std::int64_t place = index_of(runtime, given[index], "a place in a text");
    return std::clamp<std::int64_t>(place < 0 ? place + size : place, 0, size + 1);
  };
  const std::int64_t low = bound(first, 0), high = std::min(size, bound(first + 1, size));
  begin = byte_of(text.text, static_cast<std::size_t>(low));
  if (low > high) return std::string_view(nullptr, 0);  // not even the empty text is in it
  return text.text.substr(begin, byte_of(text.text, static_cast<std::size_t>(high)) - begin);
}

template <bool kAtEnd>
Value str_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "the method", arguments, {"affix", "start", "end"}, 1);
  std::size_t begin = 0;
  const std::string_view text = window(runtime, *self.string, given, 1, begin);
  const auto has = [&](const Value& affix) {
    const std::string_view wanted = text_argument(runtime, affix).text;
    if (text.data() == nullptr) return false;
    return kAtEnd ? text.ends_with(wanted) : text.starts_with(wanted);
  };
  if (!given[0].is(Kind::kTuple)) return boolean(has(given[0]));
  const std::span<const Value> items = given[0].sequence->items;
  return boolean(std::any_of(items.begin(), items.end(), has));
}

std::int64_t place_of(Runtime& runtime, const Value& self, const Parameters& given,
                      bool from_right) {
  const std::string_view wanted = text_argument(runtime, given[0]).text;
  std::size_t begin = 0;
  const std::string_view text = window(runtime, *self.string, given, 1, begin);
  if (text.data() == nullptr) return -1;
  const std::size_t at = from_right ? text.rfind(wanted) : text.find(wanted);
  if (at == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(count_chars(self.text().substr(0, begin + at)));
}

template <bool kFromRight, bool kMustBe>
Value str_find(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "find", arguments, {"sub", "start", "end"}, 1);
  const std::int64_t at = place_of(runtime, self, given, kFromRight);
  if (kMustBe && at < 0) runtime.fail("the text that is looked for is not there");
  return integer(at);
}

Value str_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "count", arguments, {"sub", "start", "end"}, 1);
  const std::string_view wanted = text_argument(runtime, given[0]).text;
  std::size_t begin = 0;
  const std::string_view text = window(runtime, *self.string, given, 1, begin);
  if (text.data() == nullptr) return integer(0);
  if (wanted.empty()) return integer(static_cast<std::int64_t>(count_chars(text)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos;
       at += wanted.size()) {
    ++count;
  }
  return integer(count);
}

Value str_join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "join", arguments, {"iterable"}, 1);
  const Items items(runtime, given[0]);
  for (const Value& item : items) text_argument(runtime, item);
  return joined(runtime, *self.string, items.all());
}

Value str_format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return brace_format(runtime, *self.string, arguments);
}

// isdigit() and its like: the text is not empty and all characters are of the kind.
template <bool (*kIs)(char32_t)>
Value str_all(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "the method", arguments, {}, 0);
  runtime.charge(self.text().size());
  for (std::size_t at = 0; at < self.text().size();) {
    const Char c = char_at(self.text(), at);
    if (!kIs(c.code)) return boolean(false);
    at += c.size;
  }
  return boolean(!self.text().empty());
}

bool is_alphanumeric(char32_t code) { return is_alpha(code) || is_numeric(code); }

template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
Value str_in_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "the method", arguments, {}, 0);
  runtime.charge(self.text().size());
  bool any = false;
  for (std::size_t at = 0; at < self.text().size();) {
    const Char c = char_at(self.text(), at);
    if (kOther(c.code)) return boolean(false);
    any |= kWanted(c.code);
    at += c.size;
  }
  return boolean(any);
}

Value str_is_ascii(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "isascii", arguments, {}, 0);
  return boolean(is_ascii(self.text()));
}

Value str_remove_prefix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "removeprefix", arguments, {"prefix"}, 1);
  const std::string_view text = self.text(), affix = text_argument(runtime, given[0]).text;
  return runtime.part(*self.string, text.starts_with(affix) ? affix.size() : 0, text.size());
}

Value str_remove_suffix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "removesuffix", arguments, {"suffix"}, 1);
  const std::string_view text = self.text(), affix = text_argument(runtime, given[0]).text;
  const bool has = !affix.empty() && text.ends_with(affix);
  return runtime.part(*self.string, 0, text.size() - (has ? affix.size() : 0));
}

template <char kAlign>
Value str_padded(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "the method", arguments, {"width", "fillchar"}, 1);
  const Value fill = given.get(1, runtime.text(" "));
  if (count_chars(text_argument(runtime, fill).text) != 1) {
    runtime.fail("one character is expected to fill with");
  }
  MarkedText out;
  append_padded(runtime, self, index_of(runtime, given[0], "a width"), fill.text(), kAlign, out);
  return runtime.text(out);
}

Value str_zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "zfill", arguments, {"width"}, 1);
  const std::int64_t width = index_of(runtime, given[0], "a width");
  const bool sign = self.text().starts_with('-') || self.text().starts_with('+');
  MarkedText out;
  if (sign) out.append(*runtime.part(*self.string, 0, 1).string);
  append_padded(runtime, runtime.part(*self.string, sign, self.text().size()), width - sign, "0",
                '>', out);
  return runtime.text(out);
}

Value list_count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "count", arguments, {"value"}, 1);
  std::int64_t count = 0;
  for (const Value& item : Items(runtime, self)) count += equal(runtime, item, given[0]);
  return integer(count);
}

Value list_index(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "index", arguments, {"value"}, 1);
  std::int64_t index = 0;
  for (const Value& item : Items(runtime, self)) {
    if (equal(runtime, item, given[0])) return integer(index);
    ++index;
  }
  runtime.fail("the value that is looked for is not in the list");
}

Value same(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "copy", arguments, {}, 0);
  return self;  // values do not change
}

Value dict_get(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters given(runtime, "get", arguments, {"key", "default"}, 1);
  const Value* found = find(runtime, *self.dict, given[0]);
  return found != nullptr ? *found : given.get(1, none());
}

Value dict_keys(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "keys", arguments, {}, 0);
  const Items keys(runtime, self);
  return runtime.view({keys.begin(), keys.end()}, "dict_keys", false);
}

Value dict_values(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "values", arguments, {}, 0);
  std::vector<Value> values;
  for (const Entry& entry : self.dict->entries) values.push_back(entry.value);
  return runtime.view(values, "dict_values", false);
}

Value dict_items(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "items", arguments, {}, 0);
  std::vector<Value> pairs;
  for (const Entry& entry : self.dict->entries) {
    pairs.push_back(runtime.tuple({entry.key, entry.value}));
  }
  return runtime.view(pairs, "dict_items", false);
}

Value cycler_next(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "next", arguments, {}, 0);
  Cycler& cycler = *self.cycler;
  const Value item = cycler.items[cycler.next];
  cycler.next = (cycler.next + 1) % cycler.items.size();
  return item;
}

Value cycler_reset(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Parameters none(runtime, "reset", arguments, {}, 0);
  self.cycler->next = 0;
  return jinja::none();
}

Value loop_cycle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) runtime.fail("there is nothing to cycle through");
  return arguments.positional[self.loop->index % arguments.positional.size()];
}

Value loop_changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Value values = runtime.tuple(arguments.positional);
  Loop& loop = *self.loop;
  if (loop.last_changed != nullptr) {
    Value before = values;
    before.sequence = const_cast<Sequence*>(loop.last_changed);
    if (equal(runtime, before, values)) return boolean(false);
  }
  loop.last_changed = values.sequence;
  return boolean(true);
}

constexpr auto kStrMethods = std::to_array<MethodEntry>({
    {"strip", str_strip<Side::kBoth>},
    {"lstrip", str_strip<Side::kLeft>},
    {"rstrip", str_strip<Side::kRight>},
    {"split", str_split<false>},
    {"rsplit", str_split<true>},
    {"splitlines", str_splitlines},
    {"partition", str_partition<false>},
    {"rpartition", str_partition<true>},
    {"startswith", str_affix<false>},
    {"endswith", str_affix<true>},
    {"replace", str_replace},
    {"upper", str_case<Case::kUpper>},
    {"lower", str_case<Case::kLower>},
    {"casefold", str_case<Case::kLower>},
    {"title", str_title},
    {"capitalize", str_capitalize},
    {"swapcase", str_swapcase},
    {"find", str_find<false, false>},
    {"rfind", str_find<true, false>},
    {"index", str_find<false, true>},
    {"rindex", str_find<true, true>},
    {"count", str_count},
    {"join", str_join},
    {"format", str_format},
    {"removeprefix", str_remove_prefix},
    {"removesuffix", str_remove_suffix},
    {"ljust", str_padded<'<'>},
    {"rjust", str_padded<'>'>},
    {"center", str_padded<'c'>},
    {"zfill", str_zfill},
    {"isdigit", str_all<is_digit>},
    {"isdecimal", str_all<is_decimal>},
    {"isnumeric", str_all<is_numeric>},
    {"isalpha", str_all<is_alpha>},
    {"isalnum", str_all<is_alphanumeric>},
    {"isspace", str_all<is_space>},
    {"isascii", str_is_ascii},
    {"isupper", str_in_case<is_upper, is_lower>},
    {"islower", str_in_case<is_lower, is_upper>},
});

constexpr auto kListMethods = std::to_array<MethodEntry>({
    {"count", list_count},
    {"index", list_index},
    {"copy", same},
    {"append", nullptr},
    {"clear", nullptr},
    {"extend", nullptr},
    {"insert", nullptr},
    {"pop", nullptr},
    {"remove", nullptr},
    {"reverse", nullptr},
    {"sort", nullptr},
});

constexpr auto kTupleMethods = std::to_array<MethodEntry>({
    {"count", list_count},
    {"index", list_index},
});

constexpr auto kDictMethods = std::to_array<MethodEntry>({
    {"get", dict_get},
    {"items", dict_items},
    {"keys", dict_keys},
    {"values", dict_values},
    {"copy", same},
    {"clear", nullptr},
    {"pop", nullptr},
    {"popitem", nullptr},
    {"setdefault", nullptr},
    {"update", nullptr},
});

constexpr auto kCyclerMethods = std::to_array<MethodEntry>({
    {"next", cycler_next},
    {"reset", cycler_reset},
});

constexpr auto kLoopMethods = std::to_array<MethodEntry>({
    {"cycle", loop_cycle},
    {"changed", loop_changed},
});

std::span<const MethodEntry> methods_of(Kind kind) {
  switch (kind) {
    case Kind::kString: return kStrMethods;
    case Kind::kList: return kListMethods;
    case Kind::kTuple:
    case Kind::kRange: return kTupleMethods;
    case Kind::kDict: return kDictMethods;
    case Kind::kCycler: return kCyclerMethods;
    case Kind::kLoop: return kLoopMethods;
    default: return {};
  }
}

}  // namespace

const MethodEntry* find_method(const Value& value, std::string_view name) {
  const std::span<const MethodEntry> table = methods_of(value.kind);
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const MethodEntry& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace quern::text::jinja

// What Python does with any value, whatever its type: truth, length, passing over its items,
// comparing, members and elements. Called by the evaluator, filters, tests and methods.
// All throw kChatTemplateFailed where Python would raise, and kChatTemplateLimit.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

bool truth(const Value& value);
std::optional<std::size_t> length(const Value& value);  // nullopt: it has none
bool is_iterable(const Value& value);

// The items of a value, in order. A view into lists, a copy of what is made on the way.
class Items {
 public:
  // Of an iterator that can be passed over once, all that is left of it.
  Items(Runtime& runtime, const Value& value);
  Items(Items&&) = default;
  std::span<const Value> all() const { return kept_.empty() ? lent_ : std::span(kept_); }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  std::size_t size() const { return all().size(); }

 private:
  std::vector<Value> kept_;
  std::span<const Value> lent_;
};

bool equal(Runtime& runtime, const Value& a, const Value& b);
// < 0, 0, > 0. Fails for values without an order; `symbol` is for the message.
int compare(Runtime& runtime, const Value& a, const Value& b, std::string_view symbol);
bool contains(Runtime& runtime, const Value& container, const Value& item);

// value.name, where a method of the type comes before an element of that name; value[key] the other
// way round. What is not there is undefined.
Value attribute(Runtime& runtime, const Value& value, const Str* name);
Value member(Runtime& runtime, const Value& value, const Str* name);  // never an element
Value element(Runtime& runtime, const Value& value, const Value& key);
Value slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
            const Value& step);

// The integer that Python takes for an index or a count.
std::int64_t index_of(Runtime& runtime, const Value& value, std::string_view what);

}  // namespace quern::text::jinja

// What every part of a rendering shares: memory, limits, errors with their place, and the making of
// values. One for each rendering; one thread.
#pragma once

#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/arena.h"
#include "text/jinja/marked_text.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

// What a rendering may take; past any of these it is stopped with kChatTemplateLimit.
struct Limits {
  std::size_t steps = 50'000'000;        // statements, operators, and each 64 bytes of text work
  int depth = 1000;                      // nested expressions, blocks and calls
  std::size_t text_bytes = 64 << 20;     // of one text: the output, or a value
  std::size_t memory_bytes = 256 << 20;  // of all values together
};

// Arguments of a call, evaluated.
struct Keyword {
  std::string_view name;
  Value value;
};
struct Arguments {
  std::vector<Value> positional;
  std::vector<Keyword> keywords;
};

class Runtime {
 public:
  // `now` is the local time that strftime_now shows.
  Runtime(std::string_view source, const Limits& limits, const std::tm& now);

  Arena& arena() { return arena_; }
  const std::tm& now() const { return now_; }

  // Where the template is, for errors: a byte of the source.
  void set_place(std::uint32_t at) { at_ = at; }
  std::uint32_t place() const { return at_; }
  // Throws: kChatTemplateFailed; kChatTemplateRefused, for raise_exception; kChatTemplateLimit.
  [[noreturn]] void fail(std::string_view reason) const;
  [[noreturn]] void refuse(std::string_view reason) const;
  [[noreturn]] void stop(std::string_view limit) const;
  // The failure of using an undefined value.
  [[noreturn]] void fail_undefined(const Value& value) const;

  void step() {
    if (++steps_ > limits_.steps) stop_steps();
  }
  void charge(std::size_t bytes) {
    steps_ += bytes / 64;
    step();
  }
  // Stops where one text would get larger than a text may be.
  void check_size(std::size_t bytes) const;
  void check_product(std::size_t bytes, Int times) const;

  // One level deeper while it lives.
  class Deeper {
   public:
    explicit Deeper(Runtime& runtime) : runtime_(runtime) {
      if (++runtime_.depth_ > runtime_.limits_.depth) runtime_.stop_depth();
    }
    ~Deeper() { --runtime_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Runtime& runtime_;
  };

  Value text(std::string_view text, bool data = false);  // a copy
  Value text(const MarkedText& text);                    // a copy
  // Bytes [begin, end) of a string, without a copy.
  Value part(const Str& text, std::size_t begin, std::size_t end);
  // A view of `text`, which lives in the arena, with `like`'s origin as a whole.
  Value retold(const Str& like, std::string_view text);
  Value list(const std::vector<Value>& items);
  Value tuple(const std::vector<Value>& items);
  Value view(const std::vector<Value>& items, const char* type, bool consumed);
  // Of equal keys the first place and the last value count, as in Python.
  Value dict(const std::vector<Entry>& entries);
  Value missing(Missing::Why why, Kind owner, std::string_view name);  // `name` must live on

 private:
  [[noreturn]] void stop_steps() const;
  [[noreturn]] void stop_depth() const;

  std::string_view source_;
  Limits limits_;
  std::tm now_;
  Arena arena_;
  std::uint32_t at_ = 0;
  std::size_t steps_ = 0;
  int depth_ = 0;
};

// Arguments by the names of a function's parameters, as Python binds them.
class Parameters {
 public:
  // The first `required` of `names` must be given. Throws: kChatTemplateFailed.
  Parameters(Runtime& runtime, std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, std::size_t required);

  bool has(std::size_t index) const { return values_[index] != nullptr; }
  const Value& operator[](std::size_t index) const { return *values_[index]; }
  // The value, or the default where it is absent.
  Value get(std::size_t index, const Value& absent) const {
    return has(index) ? *values_[index] : absent;
  }

 private:
  static constexpr std::size_t kMost = 6;
  const Value* values_[kMost] = {};
};

// The key's place in the dict, or null. Throws: kChatTemplateFailed for what cannot be a key.
const Value* find(Runtime& runtime, const Dict& dict, const Value& key);
const Value* find(const Dict& dict, std::string_view key);

}  // namespace quern::text::jinja

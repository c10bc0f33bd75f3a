// The conversations that a load consists of, made from a seed or read from a file of JSON lines.
// The same options give the same conversations on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "load/options.h"

namespace quern::load {

struct Message {
  std::string role;  // system, user, assistant
  std::string content;
};

struct Turn {
  std::string text;  // the user's words
  std::int64_t max_tokens = 0;
};

// One user: the turns are sent one after the other, each after the answer to the one before.
struct Conversation {
  std::vector<Message> opening;  // what stands before the first turn
  std::vector<Turn> turns;       // at least one
};

// The longest line of a file, and the most lines.
inline constexpr std::size_t kMaxLineBytes = 16 << 20;
inline constexpr std::size_t kMaxLines = 1'000'000;

// In the order in which they arrive. Throws: kFileUnreadable, kLoadLineInvalid.
std::vector<Conversation> make_workload(const Options& options);

// One line of a file: an object with `messages` (the last one is the turn), `conversations` of
// ShareGPT (its first entry), or `prompt` or `text`; and optionally `max_tokens`, `max_new_tokens`
// or `output_len`, else `default_tokens`. Where it is none of these, `reason` says why and the
// result has no turns.
Conversation read_line(std::string_view line, std::int64_t default_tokens, std::string* reason);

// A text of `count` words with a blank before each. `state` advances (SplitMix64).
std::string words(std::int64_t count, std::uint64_t* state);

// When each of `count` conversations arrives, in seconds: a Poisson process, or all at 0.
std::vector<double> arrivals(std::size_t count, double rate, std::uint64_t seed);

}  // namespace quern::load

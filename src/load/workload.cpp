#include "load/workload.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/errors/engine.h"
#include "base/errors/load.h"
#include "load/bounded_json.h"

namespace quern::load {
namespace {

// Frequent words: with a blank before it each is one token of nearly every vocabulary.
constexpr std::string_view kWords[] = {
    "the",     "of",        "and",       "to",       "in",      "is",      "that",    "for",
    "it",      "was",       "on",        "are",      "as",      "with",    "they",    "at",
    "be",      "this",      "from",      "have",     "or",      "by",      "one",     "had",
    "not",     "but",       "what",      "all",      "were",    "when",    "we",      "there",
    "can",     "an",        "your",      "which",    "their",   "said",    "if",      "do",
    "will",    "each",      "about",     "how",      "up",      "out",     "them",    "then",
    "she",     "many",      "some",      "so",       "these",   "would",   "other",   "into",
    "has",     "more",      "her",       "two",      "like",    "him",     "see",     "time",
    "could",   "no",        "make",      "than",     "first",   "been",    "its",     "who",
    "now",     "people",    "my",        "made",     "over",    "did",     "down",    "only",
    "way",     "find",      "use",       "may",      "water",   "long",    "little",  "very",
    "after",   "words",     "called",    "just",     "where",   "most",    "know",    "get",
    "through", "back",      "much",      "before",   "go",      "good",    "new",     "write",
    "our",     "used",      "me",        "man",      "too",     "any",     "day",     "same",
    "right",   "look",      "think",     "also",     "around",  "another", "came",    "come",
    "work",    "three",     "word",      "must",     "because", "does",    "part",    "even",
    "place",   "well",      "such",      "here",     "take",    "why",     "things",  "help",
    "put",     "years",     "different", "away",     "again",   "off",     "went",    "old",
    "number",  "great",     "tell",      "men",      "say",     "small",   "every",   "found",
    "still",   "between",   "name",      "should",   "home",    "big",     "give",    "air",
    "line",    "set",       "own",       "under",    "read",    "last",    "never",   "us",
    "left",    "end",       "along",     "while",    "might",   "next",    "sound",   "below",
    "saw",     "something", "thought",   "both",     "few",     "those",   "always",  "looked",
    "show",    "large",     "often",     "together", "asked",   "house",   "world",   "going",
    "want",    "school",    "important", "until",    "form",    "food",    "keep",    "children",
    "feet",    "land",      "side",      "without",  "boy",     "once",    "animals", "life",
    "enough",  "took",      "four",      "head",     "above",   "kind",    "began",   "almost",
    "live",    "page",      "got",       "earth",    "need",    "far",     "hand",    "high",
    "year"};

std::uint64_t next_random(std::uint64_t* state) {
  std::uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

std::int64_t draw(std::int64_t low, std::int64_t high, std::uint64_t* state) {
  return low +
         static_cast<std::int64_t>(next_random(state) % static_cast<std::uint64_t>(high - low + 1));
}

std::int64_t length_of(std::int64_t most, double ratio, std::uint64_t* state) {
  const auto least = static_cast<std::int64_t>(std::ceil(static_cast<double>(most) * ratio - 1e-9));
  return draw(std::clamp<std::int64_t>(least, 1, most), most, state);
}

Turn random_turn(const Options& options, std::uint64_t* state) {
  const std::int64_t input = length_of(options.input_len, options.range_ratio, state);
  const std::int64_t output = length_of(options.output_len, options.range_ratio, state);
  return {words(input, state), output};
}

std::vector<std::string> prefixes(std::int64_t count, std::int64_t length, std::uint64_t* state) {
  std::vector<std::string> made;
  for (std::int64_t i = 0; i < count && length > 0; ++i) made.push_back(words(length, state));
  return made;
}

std::vector<Conversation> shared_prefix(const Options& options, std::uint64_t* state) {
  const std::vector<std::string> shared =
      prefixes(options.prefix_groups, options.prefix_len, state);
  std::vector<Conversation> made;
  for (std::int64_t group = 0; group < options.prefix_groups; ++group) {
    for (std::int64_t i = 0; i < options.prompts_per_group; ++i) {
      Conversation& one = made.emplace_back();
      if (!shared.empty()) {
        one.opening.push_back({"system", shared[static_cast<std::size_t>(group)]});
      }
      one.turns.push_back(random_turn(options, state));
    }
  }
  // Groups come mixed, as they would from many users.
  for (std::size_t i = made.size(); i > 1; --i) {
    std::swap(made[i - 1], made[next_random(state) % i]);
  }
  return made;
}

std::size_t count_of(const Options& options) {
  return static_cast<std::size_t>(options.num_prompts > 0 ? options.num_prompts : kDefaultPrompts);
}

std::vector<Conversation> multi_turn(const Options& options, std::uint64_t* state) {
  const std::vector<std::string> shared =
      prefixes(options.prefix_groups, options.prefix_len, state);
  std::vector<Conversation> made(count_of(options));
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!shared.empty()) made[i].opening.push_back({"system", shared[i % shared.size()]});
    for (std::int64_t turn = 0; turn < options.num_turns; ++turn) {
      made[i].turns.push_back(random_turn(options, state));
    }
  }
  return made;
}

std::vector<Conversation> from_file(const Options& options) {
  std::ifstream file(options.file, std::ios::binary);
  std::string line;
  std::vector<Conversation> made;
  std::size_t number = 0;
  const auto refuse = [&](const std::string& reason) {
    return Error(errors::kLoadLineInvalid,
                 {{"file", options.file}, {"line", number}, {"reason", reason}});
  };
  char part[65536];
  const auto take_line = [&] {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) return;
    if (made.size() >= kMaxLines)
      throw refuse(fmt::format("a file may have {} requests", kMaxLines));
    std::string reason;
    made.push_back(read_line(line, options.output_len, &reason));
    if (made.back().turns.empty()) throw refuse(reason);
    line.clear();
  };
  while (file.read(part, sizeof part) || file.gcount() > 0) {
    std::string_view rest(part, static_cast<std::size_t>(file.gcount()));
    for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
      line.append(rest.substr(0, end));
      take_line();
      line.clear();
    }
    line.append(rest);
    if (line.size() > kMaxLineBytes) {
      ++number;
      throw refuse(fmt::format("a line may have {} bytes", kMaxLineBytes));
    }
  }
  if (!file.is_open() || file.bad()) throw Error(errors::kFileUnreadable, {{"file", options.file}});
  take_line();
  if (made.empty()) throw refuse("there is no request in the file");
  return made;
}

// The text of a content: a string, or parts of type text.
std::string content_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const Json& part : content) {
    if (!part.is_object()) continue;
    const auto found = part.find("text");
    if (found != part.end() && found->is_string()) text += found->get<std::string>();
  }
  return text;
}

const Json* member(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = object.find(name);
    if (found != object.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

}  // namespace

std::string words(std::int64_t count, std::uint64_t* state) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    text += ' ';
    text += kWords[next_random(state) % std::size(kWords)];
  }
  return text;
}

std::vector<double> arrivals(std::size_t count, double rate, std::uint64_t seed) {
  std::vector<double> at(count, 0.0);
  if (!std::isfinite(rate)) return at;
  std::uint64_t state = seed ^ 0xA5A5A5A5A5A5A5A5u;  // apart from the stream of the texts
  double now = 0;
  for (double& time : at) {
    time = now;
    const double uniform = (static_cast<double>(next_random(&state) >> 11) + 0.5) * 0x1p-53;
    now += -std::log(uniform) / rate;
  }
  return at;
}

Conversation read_line(std::string_view line, std::int64_t default_tokens, std::string* reason) {
  const Json json = parse_bounded(line);
  Conversation made;
  if (!json.is_object()) {
    *reason = "it is no JSON object";
    return made;
  }
  Turn turn{"", default_tokens};
  if (const Json* tokens =
          member(json, {"max_tokens", "max_completion_tokens", "max_new_tokens", "output_len"})) {
    if (!tokens->is_number_integer() || *tokens < 1 || *tokens > (1 << 24)) {
      *reason = fmt::format("max_tokens must be an integer from 1 to {}", 1 << 24);
      return made;
    }
    turn.max_tokens = tokens->get<std::int64_t>();
  }
  if (const Json* messages = member(json, {"messages"})) {
    for (const Json& message : messages->is_array() ? *messages : Json::array()) {
      const Json* role = message.is_object() ? member(message, {"role"}) : nullptr;
      const Json* content = message.is_object() ? member(message, {"content"}) : nullptr;
      if (!role || !role->is_string() || !content) {
        *reason = "every message must have a role and a content";
        return made;
      }
      made.opening.push_back({role->get<std::string>(), content_of(*content)});
    }
    if (!made.opening.empty()) {
      turn.text = std::move(made.opening.back().content);
      made.opening.pop_back();
    }
  } else if (const Json* list = member(json, {"conversations", "conversation"})) {
    if (list->is_array() && !list->empty() && list->front().is_object()) {
      const Json* text = member(list->front(), {"value", "content"});
      if (text) turn.text = content_of(*text);
    }
  } else if (const Json* text = member(json, {"prompt", "text"})) {
    turn.text = content_of(*text);
  } else {
    *reason = "it has neither messages nor prompt nor conversations";
    return made;
  }
  if (turn.text.empty()) {
    *reason = "its prompt is empty";
    return made;
  }
  made.turns.push_back(std::move(turn));
  return made;
}

std::vector<Conversation> make_workload(const Options& options) {
  std::uint64_t state = options.seed;
  switch (options.workload) {
    case Workload::kSharedPrefix: return shared_prefix(options, &state);
    case Workload::kMultiTurn: return multi_turn(options, &state);
    case Workload::kFile: {
      std::vector<Conversation> made = from_file(options);
      if (options.num_prompts > 0 && made.size() > static_cast<std::size_t>(options.num_prompts)) {
        made.resize(static_cast<std::size_t>(options.num_prompts));
      }
      return made;
    }
    case Workload::kRandom: break;
  }
  std::vector<Conversation> made(count_of(options));
  for (Conversation& one : made) one.turns.push_back(random_turn(options, &state));
  return made;
}

}  // namespace quern::load

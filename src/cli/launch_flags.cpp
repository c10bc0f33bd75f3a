#include "cli/launch_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "base/errors/base.h"
#include "base/errors/cli.h"

namespace quern::cli {
namespace {

using enum FlagValues;

constexpr LaunchFlag kServed[] = {
    {"--api-key", "", kOne},
    {"--attention-backend", "", kOne},
    {"--chat-template", "", kOne},
    {"--chunked-prefill-size", "", kOne},
    {"--context-length", "", kOne},
    {"--decode-attention-backend", "", kOne},
    {"--disable-priority-preemption", "", kSwitch},
    {"--disable-radix-cache", "", kSwitch},
    {"--dtype", "", kOne},
    {"--enable-deterministic-inference", "", kSwitch},
    {"--enable-priority-scheduling", "", kSwitch},
    {"--host", "", kOne},
    {"--kv-cache-dtype", "", kOne},
    {"--log-level", "", kOne},
    {"--max-prefill-tokens", "", kOne},
    {"--max-queued-requests", "", kOne},
    {"--max-running-requests", "", kOne},
    {"--max-total-tokens", "", kOne},
    {"--model-path", "--model", kOne, "--model"},
    {"--page-size", "", kOne},
    {"--port", "", kOne},
    {"--prefill-attention-backend", "", kOne},
    {"--priority-scheduling-preemption-threshold", "", kOne},
    {"--random-seed", "", kOne},
    {"--schedule-conservativeness", "", kOne},
    {"--schedule-low-priority-values-first", "", kSwitch},
    {"--schedule-policy", "", kOne},
    {"--served-model-name", "", kOne},
    {"--speculative-algorithm", "", kOne},
    {"--speculative-attention-mode", "", kOne},
    {"--speculative-draft-attention-backend", "", kOne},
    {"--speculative-draft-model-path", "--speculative-draft-model", kOne},
    {"--speculative-eagle-topk", "", kOne},
    {"--speculative-num-draft-tokens", "", kOne},
    {"--speculative-num-steps", "", kOne},
    {"--tp-size", "--tensor-parallel-size --tp", kOne, "--tp"},
};

// Flags that cannot both be meant.
struct Contradiction {
  std::string_view first, second, reason;
};
constexpr Contradiction kContradictions[] = {
    {"--disable-shared-experts-fusion", "--enforce-shared-experts-fusion",
     "one forbids what the other demands"},
    {"--disable-piecewise-cuda-graph", "--enforce-piecewise-cuda-graph",
     "one forbids what the other demands"},
    {"--encoder-only", "--language-only", "each leaves out what the other keeps"},
};

bool is_listed(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

const LaunchFlag* find_flag(std::span<const LaunchFlag> flags, std::string_view name) {
  for (const LaunchFlag& flag : flags) {
    if (flag.name == name || is_listed(flag.aliases, name)) return &flag;
  }
  return nullptr;
}

// "128k", "25.6k", "1Ki" as SGLang reads them; anything else stays for the parser to judge.
std::string plain_number(const std::string& text) {
  static const std::map<std::string_view, double> kSuffixes = {
      {"k", 1e3},     {"M", 1e6},        {"G", 1e9},           {"T", 1e12},
      {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0}};
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == 0 || end == text.npos) return text;
  const auto suffix = kSuffixes.find(std::string_view(text).substr(end));
  double number = 0;
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + end, number);
  if (suffix == kSuffixes.end() || fault != std::errc{} || stop != text.data() + end) return text;
  const bool whole = text.find('.') == text.npos;
  if (!whole && suffix->first.size() == 2) return text;
  const double value = std::round(number * suffix->second);
  return value < 9e18 ? fmt::format("{}", static_cast<std::int64_t>(value)) : text;
}

// What quern's own parser is to read for a value of SGLang's.
std::string served_value(std::string_view name, const std::string& value) {
  if (name == "--context-length" || name == "--max-total-tokens") return plain_number(value);
  // Off means that a prompt is never cut.
  if (name == "--chunked-prefill-size" && value == "-1") return "16777216";
  if (name == "--dtype" && value == "float") return "float32";
  return value;
}

class Reader {
 public:
  explicit Reader(const std::vector<std::string>& words) : words_(words) {}

  LaunchArguments read() {
    while (at_ < words_.size()) one(words_[at_++]);
    check_contradictions();
    return std::move(result_);
  }

 private:
  // A flag as it was written, with its first value.
  struct Seen {
    std::string spelling, value;
  };

  void one(const std::string& word) {
    const std::string spelling = word.substr(0, word.find('='));
    if (word.starts_with("--")) {
      if (const LaunchFlag* flag = find_flag(kServed, spelling)) return serve(*flag, word);
      if (const LaunchFlag* flag = find_flag(ignored_flags(), spelling)) return ignore(*flag, word);
      if (const LaunchFlag* flag = find_flag(refused_flags(), spelling)) return refuse(*flag, word);
    }
    result_.arguments.push_back(word);
  }

  // The values of the flag that `word` begins, one after `=` or the words that follow.
  std::vector<std::string> values_of(const LaunchFlag& flag, const std::string& word) {
    const std::size_t equal = word.find('=');
    const std::string spelling = word.substr(0, equal);
    std::vector<std::string> values;
    if (equal != word.npos) {
      values.push_back(word.substr(equal + 1));
      if (flag.values == kSwitch) {
        throw Error(errors::kInvalidFlagValue, {{"flag", spelling},
                                                {"value", values.front()},
                                                {"allowed", "no value"},
                                                {"param", spelling}});
      }
    } else if (flag.values != kSwitch) {
      const std::size_t most = flag.values == kMany ? words_.size() : 1;
      while (values.size() < most && at_ < words_.size() && !words_[at_].starts_with("--")) {
        values.push_back(words_[at_++]);
      }
      if (values.empty() && flag.values != kOptional) {
        throw Error(errors::kMissingFlagValue, {{"flag", spelling}});
      }
    }
    remember(flag, {spelling, values.empty() ? "" : values.front()});
    return values;
  }

  // Two spellings of one flag must say the same; the last of one spelling counts.
  void remember(const LaunchFlag& flag, Seen seen) {
    const auto [it, fresh] = seen_.try_emplace(flag.name, seen);
    if (fresh) return;
    if (it->second.spelling != seen.spelling && it->second.value != seen.value) {
      throw Error(errors::kContradictoryFlags,
                  {{"first", it->second.spelling + " " + it->second.value},
                   {"second", seen.spelling + " " + seen.value},
                   {"reason", "both are spellings of one flag"},
                   {"param", seen.spelling}});
    }
    it->second = std::move(seen);
  }

  void serve(const LaunchFlag& flag, const std::string& word) {
    const std::vector<std::string> values = values_of(flag, word);
    const std::string name(flag.words.empty() ? flag.name : flag.words);
    if (name == "--tp" && values.front() != "1") {
      result_.notes.push_back(
          fmt::format("{} {} counts for checks and estimates: this build computes as one rank",
                      word.substr(0, word.find('=')), values.front()));
    }
    if (values.empty() || values.front().empty()) {
      result_.arguments.push_back(name);
      result_.arguments.insert(result_.arguments.end(), values.begin(), values.end());
    } else {  // one word, so that a value such as -1 is not taken for a flag
      result_.arguments.push_back(name + "=" + served_value(flag.name, values.front()));
    }
  }

  void ignore(const LaunchFlag& flag, const std::string& word) {
    values_of(flag, word);
    result_.notes.push_back(
        fmt::format("{} is ignored: {}", word.substr(0, word.find('=')), flag.words));
  }

  void refuse(const LaunchFlag& flag, const std::string& word) {
    const std::vector<std::string> values = values_of(flag, word);
    const std::string spelling = word.substr(0, word.find('='));
    if (!values.empty() && is_listed(flag.harmless, values.front())) return;
    Error error(errors::kLaunchFlagRefused,
                {{"flag", spelling}, {"reason", flag.words}, {"param", spelling}});
    result_.notes.push_back(error.message());
    if (!result_.refused) result_.refused = std::move(error);
  }

  void check_contradictions() const {
    if (seen_.contains("--enable-hierarchical-cache") && seen_.contains("--disable-radix-cache")) {
      throw Error(errors::kHierarchicalNoRadix, {{"param", "--enable-hierarchical-cache"}});
    }
    for (const auto& [first, second, reason] : kContradictions) {
      if (!seen_.contains(first) || !seen_.contains(second)) continue;
      throw Error(errors::kContradictoryFlags,
                  {{"first", first}, {"second", second}, {"reason", reason}, {"param", second}});
    }
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  std::map<std::string_view, Seen> seen_;  // by the flag's own name
  LaunchArguments result_;
};

}  // namespace

std::span<const LaunchFlag> served_flags() { return kServed; }

LaunchArguments read_launch_flags(const std::vector<std::string>& arguments) {
  return Reader(arguments).read();
}

}  // namespace quern::cli

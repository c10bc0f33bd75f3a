// Declares flags on one command. Values are parsed and checked here and not by CLI11, so that a bad
// one is an error of the catalogue. Used by options.cpp and engine_flags.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/errors/base.h"

namespace quern::cli {

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

[[noreturn]] inline void refuse_value(const std::string& flag, const std::string& value,
                                      const std::string& allowed) {
  throw Error(errors::kInvalidFlagValue,
              {{"flag", flag}, {"value", value}, {"allowed", allowed}, {"param", flag}});
}

template <typename T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end) return std::nullopt;
  return value;
}

class Flags {
 public:
  explicit Flags(CLI::App* app) : app_(app) {}

  void text(const std::string& names, std::string* target, const std::string& help,
            const std::string& word = "TEXT") {
    declare(names, help, word, target->empty() ? "" : *target,
            [target, flag = first_of(names)](const std::string& value) {
              if (value.empty()) refuse_value(flag, value, "a text that is not empty");
              *target = value;
            });
  }

  // Any text, the empty one too.
  void optional_text(const std::string& name, std::optional<std::string>* target,
                     const std::string& help, const std::string& word) {
    declare(name, help, word, "", [target](const std::string& value) { *target = value; });
  }

  void choice(const std::string& names, std::string* target, std::vector<std::string> allowed,
              const std::string& help) {
    std::string list;
    for (const std::string& word : allowed) list += (list.empty() ? "" : ", ") + word;
    declare(names, help + " (" + list + ")", "WORD", *target,
            [target, allowed, list, flag = first_of(names)](const std::string& value) {
              for (const std::string& word : allowed) {
                if (word != value) continue;
                *target = value;
                return;
              }
              refuse_value(flag, value, list);
            });
  }

  // Target: std::int64_t, int, std::uint64_t or an optional of these.
  template <typename Target>
  void integer(const std::string& names, Target* target, std::int64_t low, std::int64_t high,
               const std::string& help, const std::string& shown_default = "") {
    declare(names, help, "N", shown_default,
            [target, low, high, flag = first_of(names)](const std::string& value) {
              const auto number = parse_number<std::int64_t>(value);
              if (!number || *number < low || *number > high) {
                refuse_value(flag, value,
                             high == kNoLimit ? fmt::format("an integer of {} or more", low)
                                              : fmt::format("an integer from {} to {}", low, high));
              }
              *target = *number;
            });
  }

  // A number in [low, high], or in (low, high] with `open`.
  // Target: double or an optional of it.
  template <typename Target>
  void real(const std::string& names, Target* target, bool open, double low, double high,
            const std::string& help, const std::string& shown_default = "") {
    declare(names, help, "X", shown_default,
            [target, open, low, high, flag = first_of(names)](const std::string& value) {
              const auto number = parse_number<double>(value);
              if (!number || !std::isfinite(*number) || *number > high || *number < low ||
                  (open && *number == low)) {
                refuse_value(flag, value,
                             fmt::format("a number {} {} and at most {}", open ? "above" : "from",
                                         low, high));
              }
              *target = *number;
            });
  }

  void on(const std::string& name, bool* target, const std::string& help) {
    app_->add_flag(name, *target, help);
  }

  void positional(const std::string& name, std::string* target, const std::string& help) {
    app_->add_option(name, *target, help);
  }

  // Here an empty word is not the same as none.
  void positional(const std::string& name, std::optional<std::string>* target,
                  const std::string& help) {
    app_->add_option_function<std::string>(
        name, [target](const std::string& value) { *target = value; }, help);
  }

 private:
  static std::string first_of(const std::string& names) { return names.substr(0, names.find(',')); }

  template <typename F>
  void declare(const std::string& names, const std::string& help, const std::string& word,
               const std::string& shown_default, F set) {
    app_->add_option_function<std::string>(names, set, help)
        ->type_name(word)
        ->default_str(shown_default)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  CLI::App* app_;
};

}  // namespace quern::cli

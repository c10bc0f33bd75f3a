// What each flag of sglang.launch_server means here: served under the same or another name, left
// out with a note, or refused with the reason. One row a flag, in launch_flags.cpp (served),
// launch_flags_noted.cpp and launch_flags_refused.cpp. Called by options.cpp for serve and check,
// before its own parser sees the arguments.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace quern::cli {

enum class FlagValues { kSwitch, kOne, kMany, kOptional };

struct LaunchFlag {
  std::string_view name;
  std::string_view aliases;  // other spellings, with spaces between
  FlagValues values = FlagValues::kSwitch;
  std::string_view words = {};     // served: quern's name where it differs; else the reason
  std::string_view harmless = {};  // values of a refused flag that ask for nothing, space between
};

std::span<const LaunchFlag> served_flags();
std::span<const LaunchFlag> ignored_flags();
std::span<const LaunchFlag> refused_flags();

struct LaunchArguments {
  std::vector<std::string> arguments;  // of quern's own parser
  std::vector<std::string> notes;      // one line each, on what was left out
  std::optional<Error> refused;        // the first flag that is refused; all are in `notes`
};

// `arguments` without the command word. What is no flag of SGLang is passed on as it is.
// Throws: kContradictoryFlags, kHierarchicalNoRadix, kMissingFlagValue, kInvalidFlagValue.
LaunchArguments read_launch_flags(const std::vector<std::string>& arguments);

}  // namespace quern::cli

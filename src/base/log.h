// The log: one spdlog logger on stderr, so that stdout carries only what a command answers.
// Any thread. A failed write never ends the process.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace quern {

// Levels: debug, info, warning, error (SGLang's words for --log-level).
// Throws: kInvalidFlagValue.
void set_log_level(std::string_view level);
spdlog::logger& log();

}  // namespace quern

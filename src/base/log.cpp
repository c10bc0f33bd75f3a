#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>

#include "base/error.h"
#include "base/errors/base.h"

namespace quern {

spdlog::logger& log() {
  // Shared with spdlog's registry for the life of the process.
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "quern", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("[%H:%M:%S %^%l%$] %v");
    made->set_error_handler([](const std::string&) {});
    return made;
  }();
  return *logger;
}

void set_log_level(std::string_view level) {
  if (level == "debug") {
    log().set_level(spdlog::level::debug);
  } else if (level == "info") {
    log().set_level(spdlog::level::info);
  } else if (level == "warning" || level == "warn") {
    log().set_level(spdlog::level::warn);
  } else if (level == "error" || level == "critical") {
    log().set_level(spdlog::level::err);
  } else {
    throw Error(
        errors::kInvalidFlagValue,
        {{"flag", "--log-level"}, {"value", level}, {"allowed", "debug, info, warning, error"}});
  }
}

}  // namespace quern

#include "server/generation.h"

#include <fmt/format.h>

#include <random>

namespace quern::server {

std::string fresh_id(std::string_view prefix) {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seeds{device(), device(), device(), device()};
    return std::mt19937_64(seeds);
  }();
  const std::uint64_t high = random(), low = random();
  return fmt::format("{}{:016x}{:016x}", prefix, high, low);
}

}  // namespace quern::server

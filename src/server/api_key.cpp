#include "server/api_key.h"

#include <cctype>

namespace quern::server {
namespace {

bool is_bearer(std::string_view scheme) {
  constexpr std::string_view kBearer = "bearer";
  if (scheme.size() != kBearer.size()) return false;
  for (size_t i = 0; i < kBearer.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(scheme[i])) != kBearer[i]) return false;
  }
  return true;
}

}  // namespace

bool key_matches(std::string_view expected, const std::vector<std::string>& authorization) {
  if (authorization.size() != 1) return false;
  const std::string_view value = authorization[0];
  const size_t space = value.find(' ');
  if (space == value.npos || !is_bearer(value.substr(0, space))) return false;
  std::string_view key = value.substr(space + 1);
  while (!key.empty() && key.front() == ' ') key.remove_prefix(1);
  unsigned differs = key.size() != expected.size();
  for (size_t i = 0; i < key.size(); ++i) {
    const char right = expected.empty() ? '\0' : expected[i % expected.size()];
    differs |= static_cast<unsigned char>(key[i]) ^ static_cast<unsigned char>(right);
  }
  return differs == 0;
}

}  // namespace quern::server

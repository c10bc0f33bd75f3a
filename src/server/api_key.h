// The guard in front of every route: checks the Authorization header against --api-key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::server {

// True where exactly one header stands there and says "Bearer KEY" with the expected key. The time
// taken depends on the lengths only, never on how much of the key was right.
bool key_matches(std::string_view expected, const std::vector<std::string>& authorization);

}  // namespace quern::server

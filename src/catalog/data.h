// The catalogue as the build made it: JSON, checked by the tests. Used by catalog.cpp only.
#pragma once

#include <string_view>

namespace quern::catalog {

std::string_view data();

}  // namespace quern::catalog

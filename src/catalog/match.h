// Finds the entries whose messages stand in a text that somebody pasted: a log line, a Python
// traceback, an error body of the HTTP API. Used by `quern explain`.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"

namespace quern::catalog {

struct Match {
  const Entry* entry;
  std::size_t position;  // byte of the text where the message begins
};

inline constexpr std::size_t kMaxMatchText = std::size_t{1} << 20;

// Entries named by their id first, then by their message: the one with more fixed characters first,
// of equals the one that stands later. Of a text longer than kMaxMatchText the end counts. A
// message that a terminal broke into lines is found where nothing else is. Any bytes; any thread.
// Cost: bounded by the text's size times the number of entries.
std::vector<Match> match(std::string_view text);

}  // namespace quern::catalog

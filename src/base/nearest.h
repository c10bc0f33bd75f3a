// The nearest of some names to a mistyped word, for "did you mean" in messages about flags,
// commands and backends.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

// Insertions, deletions and replacements that turn `a` into `b`. Cost: O(|a|·|b|).
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// The name nearest to `word`, or "" where none is near (a third of its letters, at least 2,
// differ). Names that begin with the word count as near. Words over 100 bytes have no nearest name.
inline std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  if (word.empty() || word.size() > 100) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    std::size_t distance = edit_distance(word, name);
    if (word.size() > 2 && name.starts_with(word)) distance = std::min<std::size_t>(distance, 2);
    if (distance >= best_distance) continue;
    best = name;
    best_distance = distance;
  }
  return best;
}

}  // namespace quern

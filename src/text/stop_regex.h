// A regular expression of a request that ends its answer where it matches: PCRE2, which reads what
// Python's `re` reads. Patterns come from clients, so compiling and every search are bounded.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace quern::text {

inline constexpr std::size_t kMaxStopRegexBytes = 1024;

// Immutable; any thread.
class StopRegex {
 public:
  enum class Kind {
    kNone,     // no match, and none that begins in this text can come
    kPartial,  // from `begin` on the text may still become a match
    kMatch,    // [begin, end), never empty; the leftmost
    kGivenUp,  // it took too many steps
  };
  struct Found {
    Kind kind;
    std::size_t begin = 0, end = 0;
  };

  // Throws: kStopRegexInvalid for a pattern that does not compile, is too long or too large, or
  // matches the empty text.
  explicit StopRegex(std::string pattern);

  // Searches from byte `start` on; what is before it is looked at by assertions alone. Assertions
  // such as \b and $ take the end of the text for the end of all. `whole`: nothing follows, so no
  // match is partial. Requires: valid UTF-8, start stands between two characters.
  Found find(std::string_view text, std::size_t start, bool whole) const;

  const std::string& pattern() const { return pattern_; }
  // Bytes before `start` that find() may need.
  std::size_t context() const { return context_; }

 private:
  struct Code;
  std::string pattern_;
  std::size_t context_ = 0;
  std::shared_ptr<const Code> code_;  // shared by the copies of this object
};

}  // namespace quern::text

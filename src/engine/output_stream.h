// A request's text, ended by the first stop string or stop regex, holding back no more than what
// could still become one. One request's; the engine's thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "quern/types.h"
#include "text/stop_regex.h"

namespace quern::engine {

// A match of a stop regex spans at most this; what is older is given out.
inline constexpr std::size_t kMaxStopRegexMatch = 2048;

class OutputStream {
 public:
  // Takes stop, stop_regex and no_stop_trim. Throws: kStopRegexInvalid.
  explicit OutputStream(const SamplingParams& sampling);

  // Adds a token's text, whole characters; returns the text that is certain now. After a stop was
  // found nothing more comes out.
  std::string push(std::string_view text);
  // The rest and the last text, when generation ends for another reason.
  std::string flush(std::string_view text = {});

  bool stopped() const { return !matched_.empty(); }
  const std::string& matched_stop() const { return matched_; }  // the string, or the regex
  // The regex whose search took too many steps, or ""; then the request cannot go on.
  const std::string& too_costly() const { return too_costly_; }

 private:
  std::string release(bool all);
  // Where the text begins that may still become a stop.
  std::size_t unsure_from(std::size_t partial) const;
  void forget();

  std::vector<std::string> stop_;
  std::vector<text::StopRegex> regexes_;
  bool keep_stop_;
  std::size_t context_ = 0;  // bytes before released_ that the regexes may look at
  std::string text_;         // that context, and the text not given out yet
  std::size_t released_ = 0;
  std::string matched_, too_costly_;
};

}  // namespace quern::engine

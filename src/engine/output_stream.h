// A request's tokens to text: whole characters only, ended before the first stop string, holding
// back no more than what could still become one. One request's; the engine's thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"

namespace quern::engine {

class OutputStream {
 public:
  explicit OutputStream(std::vector<std::string> stop);

  // Adds a token's bytes; returns the text that is certain now. After a stop string was found
  // nothing more comes out.
  std::string push(std::string_view bytes);
  // The rest, when generation ends for another reason.
  std::string flush();

  bool stopped() const { return !matched_.empty(); }
  const std::string& matched_stop() const { return matched_; }

 private:
  std::string release(bool all);

  std::vector<std::string> stop_;
  text::Detokenizer detokenizer_;
  std::string held_;     // text not given out yet
  std::string matched_;  // the stop string found
};

}  // namespace quern::engine

// A request's text, ended before the first stop string, holding back no more than what could still
// become one. One request's; the engine's thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quern::engine {

class OutputStream {
 public:
  explicit OutputStream(std::vector<std::string> stop);

  // Adds a token's text; returns the text that is certain now. After a stop string was found
  // nothing more comes out.
  std::string push(std::string_view text);
  // The rest and the last text, when generation ends for another reason.
  std::string flush(std::string_view text = {});

  bool stopped() const { return !matched_.empty(); }
  const std::string& matched_stop() const { return matched_; }

 private:
  std::string release(bool all);

  std::vector<std::string> stop_;
  std::string held_;     // text not given out yet
  std::string matched_;  // the stop string found
};

}  // namespace quern::engine

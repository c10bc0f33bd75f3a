// One POST that generates text, in the words of one API: which requests go to the engine, and how
// its events become a body or a stream. Made by openai_api and native_api, driven by
// connection.cpp, which knows neither API. One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "quern/engine.h"

namespace quern::server {

class Generation {
 public:
  virtual ~Generation() = default;

  // One a choice; a choice's number is its place here. Moved out by the driver.
  std::vector<Request> requests;
  std::string id;  // by which the client knows it
  bool stream = false;
  std::string prompt_param;  // the field that holds the prompt, for errors about it

  // Takes the next event of a choice; never one of kError. One of kCancelled ends it on
  // somebody's request.
  virtual void add(size_t choice, const TokenEvent& event) = 0;
  // The frames of a stream for what was added since the last call; "" for none.
  virtual std::string frames() = 0;
  // The frames after the last event, [DONE] included.
  virtual std::string last_frames() = 0;
  // The whole answer, when all choices have finished.
  virtual std::string body() = 0;
};

// "chatcmpl-" and the like with 32 random hex digits. Any thread.
std::string fresh_id(std::string_view prefix);

}  // namespace quern::server

// The three APIs that the load generator speaks: how a request is written and what an answer, in
// one piece or event by event, says of text and tokens. Servers are outside: whatever they send is
// bounded and ends in a failure with a reason at worst.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "load/options.h"
#include "load/workload.h"

namespace quern::load {

std::string_view path_of(Api api);

// The body of a request. `history` holds all messages, the user's last. Requires:
// options.extra_body is "" or a JSON object.
std::string request_body(const Options& options, const std::string& model,
                         const std::vector<Message>& history, std::int64_t max_tokens);

// Collects one answer.
class Answer {
 public:
  explicit Answer(Api api) : api_(api) {}

  // Takes the JSON of one event, or of a whole answer with `whole`. False where it is a failure,
  // which failure() then tells. [DONE] ends the stream.
  bool add(std::string_view json, bool whole);

  const std::string& text() const { return text_; }
  const std::string& failure() const { return failure_; }
  bool done() const { return done_; }          // [DONE] came, or the whole answer
  bool finished() const { return finished_; }  // a finish_reason was there
  bool counted() const { return counted_; }    // the server told its token counts
  // New tokens that the last add() brought, 0 where it brought no text; by text where the server
  // does not count them in every event.
  std::int64_t added_tokens() const { return added_; }
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t output_tokens() const { return counted_ ? output_tokens_ : events_; }
  std::int64_t cached_tokens() const { return cached_tokens_; }

 private:
  bool fail(std::string reason);

  Api api_;
  std::string text_, failure_;
  bool done_ = false, finished_ = false, counted_ = false;
  std::int64_t added_ = 0, events_ = 0;
  std::int64_t prompt_tokens_ = 0, output_tokens_ = 0, cached_tokens_ = 0;
};

// What the body of an HTTP error says, in one line of at most 200 characters.
std::string error_text(std::string_view body);

// The id of the first model in the answer to /v1/models; "" where there is none.
std::string first_model(std::string_view body);

}  // namespace quern::load

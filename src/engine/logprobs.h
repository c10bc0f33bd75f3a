// Log-probabilities from a row of logits: of a token, of the likeliest and of those asked for. They
// are the model's own, before temperature, penalties, bias and filters. The engine's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quern/types.h"
#include "text/tokenizer.h"

namespace quern::engine {

// Refuses ids outside the vocabulary, in logit_bias too, a start behind the prompt's `tokens`, and
// more than could be held. Any thread. Throws: kSamplingParamInvalid.
void check_logprobs(const Request& request, std::int64_t tokens, std::int64_t vocab);

class LogprobReader {
 public:
  // `tokenizer` outlives the reader.
  explicit LogprobReader(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Of the position that `row` predicts, where `token` came to stand. Exact to 1e-5 of a float64
  // log-softmax; −∞ becomes kLeastLogprob. Equal logits: the lower id comes first.
  // Requires: a row without NaN and +∞.
  TokenLogprobs read(std::span<const float> row, std::int32_t token, const LogprobOptions& options);

  // Of a prompt's first token, which nothing predicts.
  TokenLogprobs first(std::int32_t token) const;

 private:
  LogprobToken entry(std::int32_t id, double logprob) const;

  const text::Tokenizer& tokenizer_;
  std::vector<float> weights_;                 // [vocab], reused
  std::vector<std::pair<float, int>> likely_;  // [top], most first
};

}  // namespace quern::engine

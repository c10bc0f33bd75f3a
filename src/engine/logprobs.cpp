#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/errors/engine.h"
#include "kernels/ops.h"

namespace quern::engine {
namespace {

// That one request may have of its prompt; some 20 MB.
constexpr std::int64_t kMaxPromptLogprobs = 1 << 18;

void check_known(std::int32_t id, std::int64_t vocab, std::string_view param) {
  if (id >= 0 && id < vocab) return;
  throw Error(errors::kSamplingParamInvalid,
              {{"param", param},
               {"expected", fmt::format("token ids from 0 to {}", vocab - 1)},
               {"actual", id}});
}

}  // namespace

void check_logprobs(const Request& request, std::int64_t tokens, std::int64_t vocab) {
  const LogprobOptions& asked = request.logprobs;
  if (asked.prompt_from >= tokens) {
    throw Error(errors::kSamplingParamInvalid,
                {{"param", "logprob_start_len"},
                 {"expected", fmt::format("below the prompt's {} tokens", tokens)},
                 {"actual", asked.prompt_from}});
  }
  const std::int64_t positions = asked.prompt_from >= 0 ? tokens - asked.prompt_from : 0;
  if (positions * (1 + asked.top + std::ssize(asked.token_ids)) > kMaxPromptLogprobs) {
    throw Error(errors::kSamplingParamInvalid,
                {{"param", "top_logprobs_num"},
                 {"expected", fmt::format("such that {} prompt tokens have at most {} in all",
                                          positions, kMaxPromptLogprobs)},
                 {"actual", asked.top}});
  }
  for (const std::int32_t id : asked.token_ids) check_known(id, vocab, "token_ids_logprob");
  for (const auto& [id, bias] : request.sampling.logit_bias) check_known(id, vocab, "logit_bias");
}

LogprobToken LogprobReader::entry(std::int32_t id, double logprob) const {
  // Rounding may leave a certain token above 0; a row of faults gives NaN.
  const double finite = logprob >= kLeastLogprob ? std::min(logprob, 0.0) : kLeastLogprob;
  return {id, static_cast<float>(finite), std::string(tokenizer_.text(id).inside),
          !tokenizer_.is_control(id)};
}

TokenLogprobs LogprobReader::first(std::int32_t token) const {
  TokenLogprobs made;
  made.token = entry(token, 0);
  made.predicted = false;
  return made;
}

TokenLogprobs LogprobReader::read(std::span<const float> row, std::int32_t token,
                                  const LogprobOptions& options) {
  const kernels::Ops& ops = kernels::ops();
  const auto vocab = static_cast<std::int64_t>(row.size());
  const float most = ops.maximum(row.data(), vocab);
  constexpr float kLog2E = 1.44269504f;
  weights_.resize(row.size());
  ops.exponentials(row.data(), most, kLog2E, vocab, weights_.data());
  double sum = 0;
  for (const float weight : weights_) sum += weight;
  const double total = static_cast<double>(most) + std::log(sum);
  const auto logprob = [&](std::int32_t id) {
    return static_cast<double>(row[static_cast<std::size_t>(id)]) - total;
  };

  TokenLogprobs made;
  made.token = entry(token, logprob(token));
  const auto count = static_cast<std::size_t>(std::min(options.top, vocab));
  likely_.clear();
  for (std::size_t i = 0; count > 0 && i < row.size(); ++i) {
    if (likely_.size() == count && !(row[i] > likely_.back().first)) continue;
    if (likely_.size() == count) likely_.pop_back();
    const auto place = std::upper_bound(
        likely_.begin(), likely_.end(), row[i],
        [](float value, const std::pair<float, int>& other) { return value > other.first; });
    likely_.insert(place, {row[i], static_cast<int>(i)});
  }
  for (const auto& [logit, id] : likely_) made.top.push_back(entry(id, logprob(id)));
  for (const std::int32_t id : options.token_ids) {
    // Rows of the embedding without a token are never sampled.
    made.wanted.push_back(entry(id, id < vocab ? logprob(id) : kLeastLogprob));
  }
  return made;
}

}  // namespace quern::engine

#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/ops.h"

namespace quern::engine {

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

#include "engine/benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/engine.h"

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sequences laid out in the cache by hand: sequence s owns the pages [s · n, (s + 1) · n).
class Sequences {
 public:
  Sequences(LoadedModel& loaded, std::int64_t count, std::int64_t tokens)
      : loaded_(loaded),
        logits_(static_cast<size_t>(loaded.info.max_running_requests * loaded.info.vocab)) {
    const std::int64_t pages = (tokens + loaded.info.page_size - 1) / loaded.info.page_size;
    for (std::int64_t s = 0; s < count; ++s) {
      std::vector<std::int32_t> numbers(static_cast<size_t>(pages));
      std::iota(numbers.begin(), numbers.end(), static_cast<std::int32_t>(s * pages));
      pages_.push_back(std::move(numbers));
    }
  }

  // Appends one sequence's tokens to those computed; logits of the last one, or of all, or of none.
  enum class Rows { kNone, kLast, kAll };
  const std::vector<float>& append(size_t sequence, std::span<const std::int32_t> tokens,
                                   std::int64_t computed, Rows rows) {
    batch_.clear();
    add(sequence, tokens, computed, rows);
    return forward();
  }

  // One token for every sequence, at the same position.
  const std::vector<float>& decode(std::span<const std::int32_t> tokens, std::int64_t computed) {
    batch_.clear();
    for (size_t s = 0; s < tokens.size(); ++s) add(s, tokens.subspan(s, 1), computed, Rows::kLast);
    return forward();
  }

 private:
  void add(size_t sequence, std::span<const std::int32_t> tokens, std::int64_t computed,
           Rows rows) {
    const auto begin = static_cast<std::int32_t>(batch_.token_ids.size());
    const auto count = static_cast<std::int32_t>(tokens.size());
    for (std::int32_t i = 0; i < count; ++i) {
      batch_.token_ids.push_back(tokens[static_cast<size_t>(i)]);
      batch_.positions.push_back(static_cast<std::int32_t>(computed) + i);
      if (rows == Rows::kAll || (rows == Rows::kLast && i + 1 == count)) {
        batch_.logit_rows.push_back(begin + i);
      }
    }
    batch_.sequences.push_back(
        {begin, count, static_cast<std::int32_t>(computed) + count, pages_[sequence]});
  }

  const std::vector<float>& forward() {
    loaded_.model->forward(batch_, *loaded_.backend, *loaded_.store, logits_.data());
    return logits_;
  }

  LoadedModel& loaded_;
  std::vector<std::vector<std::int32_t>> pages_;
  std::vector<float> logits_;
  Batch batch_;
};

}  // namespace

void check_latency_plan(const LoadedModel& loaded, const LatencyPlan& plan) {
  const auto refuse = [&](std::string_view flag, std::int64_t value, std::string allowed) {
    throw Error(errors::kInvalidFlagValue,
                {{"flag", flag}, {"value", value}, {"allowed", std::move(allowed)}});
  };
  const EngineInfo& info = loaded.info;
  if (plan.tokens() > info.context_length) {
    refuse("--depth, --prefill and --decode together", plan.tokens(),
           fmt::format("up to the context of {} tokens", info.context_length));
  }
  const std::int64_t pages = (plan.tokens() + info.page_size - 1) / info.page_size;
  if (plan.batch > info.max_running_requests || plan.batch * pages > info.pages_total) {
    refuse("--batch", plan.batch,
           fmt::format("up to --max-running-requests {} and a cache of {} tokens",
                       info.max_running_requests, info.pages_total * info.page_size));
  }
}

LatencyRun measure_latency(LoadedModel& loaded, const LatencyPlan& plan) {
  const std::int64_t vocab = loaded.info.vocab, chunk = loaded.info.chunked_prefill_size;
  Sequences sequences(loaded, plan.batch, plan.tokens());
  // Arbitrary tokens, the new ones too: a step is the model's work, without choosing from logits.
  const auto token = [&](std::int64_t at) {
    return static_cast<std::int32_t>((at * 7919 + 13) % vocab);
  };
  std::vector<std::int32_t> prompt(static_cast<size_t>(plan.depth + plan.prefill));
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = token(static_cast<std::int64_t>(i));
  const std::span<const std::int32_t> all(prompt);
  std::vector<std::int32_t> next(static_cast<size_t>(plan.batch));
  const auto feed = [&](std::int64_t begin, std::int64_t end) {
    for (size_t s = 0; s < next.size(); ++s) {
      for (std::int64_t at = begin; at < end; at += chunk) {
        const std::int64_t count = std::min(chunk, end - at);
        const bool last = at + count == plan.depth + plan.prefill;
        sequences.append(s, all.subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at,
                         last ? Sequences::Rows::kLast : Sequences::Rows::kNone);
      }
    }
  };
  feed(0, plan.depth);
  LatencyRun run;
  auto start = Clock::now();
  feed(plan.depth, plan.depth + plan.prefill);
  run.prefill_seconds = seconds_since(start);
  start = Clock::now();
  for (std::int64_t step = 0; step < plan.decode; ++step) {
    for (size_t s = 0; s < next.size(); ++s) {
      next[s] = token(plan.depth + plan.prefill + step + 31 * static_cast<std::int64_t>(s));
    }
    sequences.decode(next, plan.depth + plan.prefill + step);
  }
  run.decode_seconds = seconds_since(start);
  return run;
}

Perplexity measure_perplexity(LoadedModel& loaded, std::string_view text) {
  const auto ids = loaded.tokenizer->encode(text, false);
  if (ids.size() < 2) throw Error(errors::kPerplexityTextTooShort, {{"tokens", ids.size()}});
  const auto vocab = static_cast<size_t>(loaded.info.vocab);
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::int64_t window =
      std::min(loaded.info.context_length, loaded.info.pages_total * loaded.info.page_size);
  const std::int64_t chunk =
      std::min(loaded.info.chunked_prefill_size, loaded.info.max_running_requests);
  Sequences sequences(loaded, 1, std::min(window, count));
  double loss = 0;
  std::int64_t predicted = 0;
  for (std::int64_t begin = 0; begin + 1 < count; begin += window) {
    const std::int64_t end = std::min(count, begin + window);
    for (std::int64_t at = begin; at < end; at += chunk) {
      const std::int64_t length = std::min(chunk, end - at);
      const auto& logits = sequences.append(
          0, std::span(ids).subspan(static_cast<size_t>(at), static_cast<size_t>(length)),
          at - begin, Sequences::Rows::kAll);
      for (std::int64_t i = 0; i < length && at + i + 1 < end; ++i) {
        const float* row = logits.data() + static_cast<size_t>(i) * vocab;
        const float most = *std::max_element(row, row + vocab);
        double sum = 0;
        for (size_t t = 0; t < vocab; ++t) sum += std::exp(static_cast<double>(row[t] - most));
        const auto target = static_cast<size_t>(ids[static_cast<size_t>(at + i + 1)]);
        loss += std::log(sum) + most - row[target];
        ++predicted;
      }
    }
  }
  if (!std::isfinite(loss)) {
    throw Error(errors::kPerplexityNotFinite, {{"tokens", predicted}});
  }
  return {std::exp(loss / static_cast<double>(predicted)), count};
}

}  // namespace quern::engine

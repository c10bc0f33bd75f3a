// Same request, same bits: every row of logits of every request, alone and in every circumstance
// that scheduling makes: beside 31 others, in chunks of 16 to 4096 tokens, cold, partly and wholly
// cached, retracted and resumed, with 1, 2 and 4 threads, with small and large pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "engine/scheduling.h"
#include "engine/startup.h"

namespace quern::engine {
namespace {

struct Ask {
  std::vector<std::int32_t> ids;
  int answer = 0;  // tokens
};

// What a request got: its greedy tokens, and a hash of the bits of all its logits.
struct Got {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> bits;
  bool operator==(const Got&) const = default;
};

std::uint64_t hash_bits(const float* row, std::int64_t count) {
  std::uint64_t hash = 1469598103934665603u;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, row + i, 4);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

struct Way {
  std::string name;
  std::int64_t chunk = 512, page_size = 16;
  int threads = 2;
  bool together = true;    // else one after the other
  bool cached = true;      // prefixes are kept
  int rounds = 1;          // the last one counts: it finds what the others left
  int retract_every = 0;   // steps
  std::int64_t pages = 0;  // so few that requests are retracted; 0: enough
};

class Runner {
 public:
  Runner(EngineOptions options, const Way& way) : way_(way) {
    options.chunked_prefill_size = way.chunk;
    options.page_size = way.page_size;
    options.threads = way.threads;
    options.max_running_requests = 32;
    options.max_total_tokens = way.pages > 0 ? way.pages * way.page_size : 12'000;
    options.disable_radix_cache = !way.cached;
    options.schedule_conservativeness = 0.01;
    loaded_ = load_model(options);
    scheduler_ = std::make_unique<scheduler::Scheduler>(scheduler_limits(options, loaded_.info),
                                                        *loaded_.pages);
    logits_.resize(static_cast<size_t>(32 * loaded_.info.vocab));
  }

  std::vector<Got> run(const std::vector<Ask>& asks) {
    std::vector<Got> got;
    for (int round = 0; round < way_.rounds; ++round) {
      got.assign(asks.size(), {});
      std::mt19937 random(static_cast<std::uint32_t>(round));
      size_t next = 0;
      while (next < asks.size() || !scheduler_->idle()) {
        const bool free = way_.together ? random() % 3 == 0 : scheduler_->idle();
        for (size_t burst = random() % 12; free && next < asks.size(); --burst) {
          scheduler_->add(
              {.id = next + 1, .tokens = asks[next].ids, .max_new_tokens = asks[next].answer});
          ++next;
          if (!way_.together || burst == 0) break;
        }
        step(asks, &got);
      }
    }
    return got;
  }

  std::int64_t retracted() const { return scheduler_->retracted(); }
  std::int64_t cached_tokens = 0;  // of all rounds

 private:
  void step(const std::vector<Ask>& asks, std::vector<Got>* got) {
    const scheduler::Plan& plan = scheduler_->plan();
    for (const auto& admitted : plan.admitted) cached_tokens += admitted.cached_tokens;
    ASSERT_TRUE(plan.out_of_pages.empty());
    if (plan.batch.token_ids.empty()) return;
    loaded_.model->forward(plan.batch, *loaded_.backend, *loaded_.store, logits_.data());
    scheduler_->commit(1e-3 * plan.load.tokens);
    for (size_t row = 0; row < plan.row_requests.size(); ++row) {
      const RequestId id = plan.row_requests[row];
      const float* logits = &logits_[row * static_cast<size_t>(loaded_.info.vocab)];
      Got& mine = (*got)[id - 1];
      mine.bits.push_back(hash_bits(logits, loaded_.info.vocab));
      mine.tokens.push_back(static_cast<std::int32_t>(
          std::max_element(logits, logits + loaded_.info.vocab) - logits));
      if (std::ssize(mine.tokens) == asks[id - 1].answer) {
        scheduler_->remove(id);
      } else {
        scheduler_->append(id, mine.tokens.back());
      }
    }
    scheduler_->check();
    if (way_.retract_every > 0 && ++steps_ % way_.retract_every == 0) scheduler_->retract_all();
  }

  Way way_;
  LoadedModel loaded_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::vector<float> logits_;  // [32, vocab]
  int steps_ = 0;
};

// 32 prompts of 1 to `longest` tokens; some begin alike.
std::vector<Ask> random_asks(std::int32_t vocab, int longest, int answer) {
  std::mt19937 random(9);
  std::vector<Ask> asks;
  for (int i = 0; i < 32; ++i) {
    Ask ask{{}, 1 + static_cast<int>(random() % static_cast<std::uint32_t>(answer))};
    const int length = 1 + static_cast<int>(random() % static_cast<std::uint32_t>(longest));
    std::mt19937 words(i % 3 == 0 ? 1 : static_cast<std::uint32_t>(100 + i));
    for (int t = 0; t < length; ++t) {
      ask.ids.push_back(4 +
                        static_cast<std::int32_t>(words() % static_cast<std::uint32_t>(vocab - 4)));
    }
    asks.push_back(std::move(ask));
  }
  return asks;
}

void expect_same_bits(const EngineOptions& options, std::int32_t vocab, int longest, int answer,
                      const std::vector<Way>& ways) {
  const std::vector<Ask> asks = random_asks(vocab, longest, answer);
  const std::vector<Got> alone =
      Runner(options, {.name = "alone", .together = false, .cached = false}).run(asks);
  for (const Way& way : ways) {
    Runner runner(options, way);
    const std::vector<Got> got = runner.run(asks);
    for (size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(got[i].tokens, alone[i].tokens) << way.name << ", request " << i;
      EXPECT_EQ(got[i].bits, alone[i].bits) << way.name << ", request " << i;
    }
    EXPECT_EQ(runner.retracted() > 0, way.retract_every > 0 || way.pages > 0) << way.name;
    // Few of the prompts share a page as large as 64.
    EXPECT_TRUE(runner.cached_tokens > 0 || !way.cached || way.page_size > 32) << way.name;
    EXPECT_TRUE(runner.cached_tokens == 0 || way.cached) << way.name;
  }
}

std::vector<Way> all_ways(int longest, int answer) {
  const std::int64_t few = (longest + answer) / 16 + 4;
  return {
      {.name = "in a batch of 32"},
      {.name = "in chunks of 16", .chunk = 16, .threads = 1},
      {.name = "in chunks of 64 and pages of 64", .chunk = 64, .page_size = 64, .threads = 4},
      {.name = "in chunks of 4096 without a cache", .chunk = 4096, .cached = false},
      {.name = "one after the other, wholly cached", .together = false, .rounds = 2},
      {.name = "wholly cached in a batch", .page_size = 32, .rounds = 2},
      {.name = "retracted every 3 steps", .chunk = 100, .retract_every = 3},
      {.name = "with few pages", .pages = few},
      {.name = "with few pages and no cache", .chunk = 48, .cached = false, .pages = few},
  };
}

class SameBits : public testing::TestWithParam<const char*> {};

TEST_P(SameBits, InEveryCircumstance) {
  EngineOptions options;
  options.model_path = std::string(QUERN_TEST_DATA "/models/") + GetParam();
  // Only then latent attention promises it, for its choice of a way depends on the chunks.
  options.enable_deterministic_inference = true;
  for (const char* type : {"auto", "float32"}) {
    options.kv_cache_dtype = type;
    expect_same_bits(options, 512, 120, 40, all_ways(120, 40));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SameBits,
                         testing::Values("llama/gguf/llama-Q4_1.gguf", "llama3", "mistral",
                                         "mixtral", "qwen3", "qwen3_moe", "deepseek_v2",
                                         "deepseek_v3"));

TEST(SameBitsOfTheDefaultModel, InEveryCircumstance) {
  EngineOptions options;
  const char* path = std::getenv("QUERN_DEFAULT_MODEL");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache ? cache : std::string(home ? home : "") + "/.cache";
  options.model_path =
      path != nullptr ? path : base + "/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(options.model_path)) {
    GTEST_SKIP() << "the default model is not here (make model)";
  }
  // The ways that differ most: each takes some seconds.
  std::vector<Way> ways = all_ways(80, 24);
  std::erase_if(ways, [](const Way& way) { return !way.together || way.chunk == 4096; });
  expect_same_bits(options, 49'000, 80, 24, ways);
}

}  // namespace
}  // namespace quern::engine

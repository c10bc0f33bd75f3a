// The real default model against reference outputs computed in float32 on its decoded weights
// (tests/data/smollm2). Bounds are that folder's. Skipped where the model was not fetched.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/test_runner.h"

namespace quern::model {
namespace {

using attention::KvType;
using kernels::PackMode;

std::string model_path() {
  if (const char* path = std::getenv("QUERN_DEFAULT_MODEL")) return path;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache ? cache : std::string(home ? home : "") + "/.cache";
  return base + "/quern/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

nlohmann::json golden() {
  std::ifstream file(QUERN_TEST_DATA "/smollm2/golden.json");
  return nlohmann::json::parse(file);
}

struct Agreement {
  int steps = 0, equal = 0;              // best id is the golden's
  int steps_half = 0, unequal_half = 0;  // margin above 0.5
  int unequal_one = 0;                   // margin above 1.0
  double worst_log_probability = 0;

  void add(const float* row, std::int64_t vocab, std::int32_t expected, double margin) {
    const bool same = std::max_element(row, row + vocab) - row == expected;
    ++steps;
    equal += same;
    steps_half += margin > 0.5;
    unequal_half += margin > 0.5 && !same;
    unequal_one += margin > 1.0 && !same;
  }
};

double log_probability(const float* row, std::int64_t vocab, std::int32_t id) {
  const float most = *std::max_element(row, row + vocab);
  double sum = 0;
  for (std::int64_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(row[i] - most));
  return row[id] - most - std::log(sum);
}

struct Text {
  double perplexity = 0;
  Agreement agreement;
};

Text run_text(TestRunner& runner, const nlohmann::json& text) {
  const std::vector<std::int32_t> ids = text.at("ids");
  const auto logits = runner.append(ids, 0);
  Text result;
  double loss = 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const float* row = logits.data() + i * static_cast<size_t>(runner.vocab());
    const double own = -log_probability(row, runner.vocab(), ids[i + 1]);
    loss += own;
    auto& worst = result.agreement.worst_log_probability;
    worst = std::max(worst, std::fabs(own - text.at("nll")[i].get<double>()));
    result.agreement.add(row, runner.vocab(), text.at("top1")[i], text.at("margin")[i]);
  }
  result.perplexity = std::exp(loss / static_cast<double>(ids.size() - 1));
  return result;
}

// Each chat with the golden answer's tokens forced.
Agreement run_chats(TestRunner& runner, const nlohmann::json& chats) {
  Agreement agreement;
  for (const auto& chat : chats) {
    std::vector<std::int32_t> ids = chat.at("prompt_ids");
    const size_t prompt = ids.size();
    for (const auto& step : chat.at("steps")) ids.push_back(step.at("id"));
    const auto logits = runner.append(ids, 0);
    for (size_t s = 0; s < chat.at("steps").size(); ++s) {
      const float* row = logits.data() + (prompt + s - 1) * static_cast<size_t>(runner.vocab());
      const auto& step = chat.at("steps")[s];
      agreement.add(row, runner.vocab(), step.at("id"), step.at("margin"));
      for (const auto& top : step.at("top")) {
        agreement.worst_log_probability = std::max(
            agreement.worst_log_probability,
            std::fabs(log_probability(row, runner.vocab(), top[0]) - top[1].get<double>()));
      }
    }
  }
  return agreement;
}

TEST(SmolLm2, Float32GivesEveryGoldenToken) {
  if (!std::filesystem::exists(model_path())) GTEST_SKIP() << "1 model skipped: " << model_path();
  TestRunner runner(model_path(), "cpu_flash", PackMode::kF32, KvType::kF32);
  const auto reference = golden();
  const Text text = run_text(runner, reference.at("text"));
  const double expected = reference.at("text").at("perplexity");
  EXPECT_NEAR(text.perplexity, expected, expected * 1e-4);
  EXPECT_EQ(text.agreement.equal, text.agreement.steps);
  EXPECT_LT(text.agreement.worst_log_probability, 1e-3);
  const Agreement chats = run_chats(runner, reference.at("chats"));
  EXPECT_EQ(chats.equal, chats.steps);
  EXPECT_LT(chats.worst_log_probability, 1e-3);
}

// The bounds were set for int8 activations alone; a bf16 cache rounds once more, and among 166 chat
// steps with a margin above 0.5 its 1 % is one step: it may miss one more.
TEST(SmolLm2, Int8ActivationsStayWithinTheBounds) {
  if (!std::filesystem::exists(model_path())) GTEST_SKIP() << "1 model skipped: " << model_path();
  for (const KvType kv : {KvType::kF32, KvType::kBF16}) {
    TestRunner runner(model_path(), "cpu_flash", PackMode::kKeep, kv);
    const auto reference = golden();
    const Text text = run_text(runner, reference.at("text"));
    const double expected = reference.at("text").at("perplexity");
    const std::string what(attention::name_of(kv));
    EXPECT_NEAR(text.perplexity, expected, expected * 0.01) << what;
    EXPECT_GE(text.agreement.equal, 0.94 * text.agreement.steps) << what;
    EXPECT_EQ(text.agreement.unequal_one, 0) << what;
    const Agreement chats = run_chats(runner, reference.at("chats"));
    EXPECT_LE(chats.unequal_half, 0.01 * chats.steps_half + (kv == KvType::kF32 ? 0 : 1)) << what;
    EXPECT_EQ(chats.unequal_one, 0) << what;
  }
}

}  // namespace
}  // namespace quern::model

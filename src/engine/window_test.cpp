// A model with a sliding window on every row of the backend table, on several machines: served with
// the same answer as the oracle, or refused before weights are read; never served without a window.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/registry.h"
#include "attention/validate.h"
#include "base/error.h"
#include "base/errors/attention.h"
#include "engine/question.h"
#include "quern/engine.h"

namespace quern {
namespace {

constexpr int kPrompt = 64, kAnswer = 16;  // the fixture's window is 32

EngineOptions options_of(const std::string& machine, std::string_view backend) {
  EngineOptions options;
  options.model_path = QUERN_TEST_DATA "/models/mistral";
  options.attention_backend = backend;
  options.simulate_hardware = machine;
  options.max_total_tokens = 256;
  return options;
}

std::vector<std::int32_t> answer_of(const EngineOptions& options) {
  auto engine = Engine::open(options);
  Request request;
  request.token_ids.emplace();
  for (int i = 0; i < kPrompt; ++i) request.token_ids->push_back(4 + i * 37 % 500);
  request.sampling = {.temperature = 0, .max_tokens = kAnswer, .ignore_eos = true};
  std::vector<std::int32_t> ids;
  TokenStream stream = engine->submit(request);
  while (auto event = stream.next()) {
    ids.insert(ids.end(), event->token_ids.begin(), event->token_ids.end());
  }
  return ids;
}

TEST(Window, IsServedOrRefusedByEveryBackend) {
  const auto expected = answer_of(options_of("", "torch_native"));
  ASSERT_EQ(expected.size(), static_cast<size_t>(kAnswer));
  const ModelConfig config = checkpoint::read_metadata(options_of("", "").model_path).config;
  int served = 0, refused = 0;
  for (const std::string machine : {"", "a100", "h100", "b200"}) {
    for (const attention::BackendRow* row : attention::backends()) {
      const EngineOptions options = options_of(machine, row->info.name);
      SCOPED_TRACE(machine + " " + options.attention_backend);
      try {
        EXPECT_EQ(answer_of(options), expected);
        EXPECT_EQ(row->info.window, attention::Support::kYes);
        ++served;
      } catch (const Error& error) {
        EXPECT_FALSE(error.field("hint").empty()) << error.message();
        ++refused;
      }
    }
  }
  EXPECT_GT(served, 8);
  EXPECT_GT(refused, 8);
}

// Whatever else a row refuses of this model, it names the window where it has none.
TEST(Window, IsAmongTheRefusalsOfARowWithoutWindows) {
  const EngineOptions options = options_of("", "");
  const auto hardware = attention::hardware_named("b200");
  const auto question =
      engine::question_of(options, checkpoint::read_metadata(options.model_path).config, hardware);
  int rows = 0;
  for (const attention::BackendRow* row : attention::backends()) {
    if (row->info.window != attention::Support::kNo || !row->info.mha) continue;
    const auto refusals = attention::validate(row->info, question.target, hardware);
    EXPECT_TRUE(std::ranges::any_of(refusals, [](const attention::Refusal& refusal) {
      return refusal.check == attention::Check::kWindow;
    })) << row->info.name;
    ++rows;
  }
  EXPECT_GT(rows, 3);
}

}  // namespace
}  // namespace quern

// The dense families beside llama against the golden outputs of their authors' implementation, and
// sliding windows.
#include <cstring>

#include "model/golden_compare.h"

namespace quern::model {
namespace {

using attention::KvType;
using kernels::PackMode;

const std::vector<Bfloat16Case> kCases = {
    {"mistral", 0.108f, 0.0297f}, {"qwen2", 0.0885f, 0.0264f}, {"qwen3", 0.129f, 0.035f}};
const std::string kBackends[] = {"torch_native", "cpu_flash"};

TEST(Dense, Float32MeetsTheGoldensInBothFormsOfTheConfig) {
  for (const Bfloat16Case& c : kCases) {
    const GoldenArrays golden(kModels + c.name + "/golden.safetensors");
    for (const std::string form : {"config.json", "config.v5.json"}) {
      for (const std::string& backend : kBackends) {
        TestRunner runner(kModels + c.name + "/" + form, backend, PackMode::kF32, KvType::kF32);
        const auto all = compare_all(runner, golden, "", 4e-3f);
        expect_exact(all, c.name + " " + form + " " + backend);
        EXPECT_EQ(all.equal, all.steps) << c.name << " " << backend;
      }
    }
  }
}

TEST(Dense, Bfloat16StaysWithinTheMeasuredTolerance) {
  for (const Bfloat16Case& c : kCases) {
    const GoldenArrays golden(kModels + c.name + "/golden.safetensors");
    for (const std::string& backend : kBackends) {
      TestRunner runner(kModels + c.name, backend, PackMode::kKeep, KvType::kBF16);
      expect_within_tolerance(compare_all(runner, golden, "", c.p99), c, c.name + " " + backend);
    }
  }
}

TEST(Dense, LogitsDoNotDependOnChunksPagesOrThreads) {
  for (const Bfloat16Case& c : kCases) {
    const auto ids =
        GoldenArrays(kModels + c.name + "/golden.safetensors").as<std::int32_t>("p5.ids");
    for (const std::string& backend : kBackends) {
      const auto logits_of = [&](std::int32_t chunk, int threads, std::int64_t page_size) {
        TestRunner runner(kModels + c.name, backend, PackMode::kKeep, KvType::kBF16,
                          {.threads = threads, .page_size = page_size});
        return runner.append(ids, 0, chunk);
      };
      const auto expected = logits_of(256, 1, 16);
      for (const auto& [chunk, threads, page_size] :
           {std::tuple{1, 2, 16}, {7, 1, 32}, {64, 3, 64}, {256, 2, 128}}) {
        const auto logits = logits_of(chunk, threads, page_size);
        EXPECT_EQ(0, std::memcmp(logits.data(), expected.data(), logits.size() * 4))
            << c.name << " " << backend << " " << chunk;
      }
    }
  }
}

std::vector<std::int32_t> text_of(size_t tokens) {
  std::vector<std::int32_t> ids;
  for (size_t i = 0; i < tokens; ++i) ids.push_back(static_cast<std::int32_t>(5 + i * 37 % 500));
  return ids;
}

// The last token's logits of a text, by the Mistral fixture's first layer alone.
std::vector<float> last_logits(std::span<const std::int32_t> ids, const std::string& backend,
                               std::int64_t window, std::int32_t chunk) {
  TestRunner runner(kModels + "mistral", backend, PackMode::kF32, KvType::kF32,
                    {.change = [&](ModelConfig& config) {
                      config.sliding_window = window;
                      config.layers = 1;
                      config.nextn_layers = 1;  // the other one's weights are let be
                    }});
  const auto logits = runner.append(ids, 0, chunk);
  return {logits.end() - runner.vocab(), logits.end()};
}

// A window of 16 is the token itself and 15 before it, in prefill, in chunks and in decode alike.
TEST(Window, CountsTheTokenItselfInPrefillChunksAndDecode) {
  const auto ids = text_of(64);
  auto inside = ids, outside = ids;
  inside[63 - 15] += 1;
  outside[63 - 16] += 1;
  for (const std::string& backend : kBackends) {
    const auto expected = last_logits(ids, backend, 16, 256);
    for (const std::int32_t chunk : {256, 5, 1}) {
      EXPECT_EQ(last_logits(ids, backend, 16, chunk), expected) << backend << " " << chunk;
      EXPECT_EQ(last_logits(outside, backend, 16, chunk), expected) << backend << " " << chunk;
      EXPECT_NE(last_logits(inside, backend, 16, chunk), expected) << backend << " " << chunk;
    }
  }
}

// The logits of the last token of 64, with a window that hides most of them and without.
TEST(Window, BackendsAgreeAndDifferFromNoWindow) {
  const auto ids = text_of(64);
  for (const std::int64_t window : {1, 16, 33}) {
    const auto expected = last_logits(ids, "torch_native", window, 256);
    const auto logits = last_logits(ids, "cpu_flash", window, 256);
    const auto whole = last_logits(ids, "cpu_flash", 0, 256);
    float between = 0, from_whole = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      between = std::max(between, std::fabs(logits[i] - expected[i]));
      from_whole = std::max(from_whole, std::fabs(logits[i] - whole[i]));
    }
    EXPECT_LT(between, 1e-4f) << window;
    EXPECT_GT(from_whole, 1e-2f) << window;
  }
  EXPECT_EQ(last_logits(ids, "cpu_flash", 64, 256), last_logits(ids, "cpu_flash", 0, 256));
}

// Qwen2 with use_sliding_window: the layers from max_window_layers on have the window.
TEST(Window, HoldsForTheLayersThatHaveIt) {
  const auto ids = text_of(64);
  const auto logits_of = [&](std::vector<LayerKind> kinds) {
    TestRunner runner(kModels + "qwen2", "cpu_flash", PackMode::kF32, KvType::kF32,
                      {.change = [&](ModelConfig& config) {
                        config.sliding_window = 16;
                        config.layer_kinds = std::move(kinds);
                      }});
    return runner.append(ids, 0);
  };
  using enum LayerKind;
  const auto none = logits_of({kFull, kFull});
  const auto both = logits_of({kWindow, kWindow});
  EXPECT_EQ(logits_of({}), both);
  for (const auto& mixed : {logits_of({kFull, kWindow}), logits_of({kWindow, kFull})}) {
    EXPECT_NE(mixed, none);
    EXPECT_NE(mixed, both);
    // The first 16 tokens see all before them either way.
    EXPECT_EQ(0, std::memcmp(mixed.data(), none.data(), 16 * 512 * sizeof(float)));
  }
}

}  // namespace
}  // namespace quern::model

// A step allocates nothing: every allocation of this program is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "model/test_runner.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// Inlined, they would look to the compiler like memory of one kind freed as another.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace quern::model {
namespace {

TEST(Step, AllocatesNothing) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 40; ++i) ids.push_back(5 + i * 37 % 500);
  for (const std::string name : {"llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen3_moe",
                                 "deepseek_v2", "deepseek_v3"}) {
    TestRunner runner(QUERN_TEST_DATA "/models/" + name, "cpu_flash", kernels::PackMode::kKeep,
                      attention::KvType::kBF16, {.repack = name != "mixtral"});
    std::vector<float> logits(ids.size() * static_cast<size_t>(runner.vocab()));
    const Batch prefill = runner.batch_of(ids, 0);
    const Batch decode = runner.batch_of(std::span(ids).first(1), 40);
    runner.forward(prefill,
                   logits);  // the backend's and the rotation's buffers grow to their sizes
    runner.forward(decode, logits);
    const std::int64_t before = allocations;
    runner.forward(prefill, logits);
    runner.forward(decode, logits);
    EXPECT_EQ(allocations, before) << name;
  }
  EXPECT_GT(allocations, 100);
}

}  // namespace
}  // namespace quern::model

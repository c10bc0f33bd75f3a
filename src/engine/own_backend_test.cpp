// Backends that a program registers: what the public door refuses. A program of its own, because a
// registered backend stays in the table for the life of the process.
#include <gtest/gtest.h>

#include "attention/backends/cpu_flash.h"
#include "base/error.h"
#include "base/errors/attention.h"
#include "base/errors/base.h"
#include "cache/kv_store.h"
#include "quern/attention.h"
#include "quern/engine.h"

namespace quern {
namespace {

using namespace attention;

constexpr KvType kTypes[] = {KvType::kBF16, KvType::kF32};

constexpr BackendInfo named(std::string_view name) {
  return {.name = name,
          .mha = true,
          .kv_types = kTypes,
          .window = Support::kNo,
          .sinks = Support::kNo,
          .soft_cap = Support::kNo,
          .device = Device::kAnyCpu,
          .machine = "any processor",
          .note = "a test"};
}

std::unique_ptr<AttentionBackend> factory(ThreadPool& pool) { return make_cpu_flash(pool); }

LayoutList rows_alone(const Needs& needs) {
  return {cache::rows_layout(DType::kBF16, 16, static_cast<std::int32_t>(needs.kv_heads),
                             static_cast<std::int32_t>(needs.head_dim),
                             static_cast<std::int32_t>(needs.v_head_dim))};
}

template <typename Action>
ErrorId refused(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.id();
  }
  return errors::kInternalError;
}

TEST(OwnBackend, IsRefusedWithoutANameOrAFunction) {
  const auto refusal = [](const BackendInfo& info, AttentionBackendFactory made) {
    return refused([&] { register_attention_backend(info, made); });
  };
  EXPECT_EQ(refusal(named(""), factory), errors::kBackendRegistration);
  EXPECT_EQ(refusal(named("own"), nullptr), errors::kBackendRegistration);
  for (const char* taken : {"cpu_flash", "trtllm_mha", "nsa"}) {
    EXPECT_EQ(refusal(named(taken), factory), errors::kBackendRegistration) << taken;
  }
  BackendInfo nothing = named("own");
  nothing.mha = false;
  EXPECT_EQ(refusal(nothing, factory), errors::kBackendRegistration);
}

TEST(OwnBackend, SharesACacheOnlyWithALayoutInCommon) {
  register_attention_backend(named("rows_alone"), factory, rows_alone);
  EngineOptions options;
  options.model_path = QUERN_TEST_DATA "/models/llama";
  options.max_total_tokens = 256;
  options.prefill_attention_backend = "rows_alone";
  options.decode_attention_backend = "cpu_flash";
  EXPECT_EQ(refused([&] { Engine::open(options); }), errors::kKvLayoutConflict);
}

}  // namespace
}  // namespace quern

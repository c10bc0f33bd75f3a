// An attention backend: data first (BackendInfo), code second (AttentionBackend). The table of all
// backends is select.cpp; docs/architecture.md tells how to add one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "attention/needs.h"
#include "base/threads.h"
#include "cache/kv_store.h"
#include "core/batch.h"

namespace quern::attention {

enum class Device { kAnyCpu, kX86, kX86Amx, kCuda, kAmd, kAscend, kIntelGpu, kOther };
enum class Speculative { kNone, kOneBranch, kTree, kUnknown };
enum class Support { kNo, kYes, kUnknown };

// The contract of a backend as data. Spans point to static storage; an empty span means any.
struct BackendInfo {
  std::string_view name;
  bool mha = false;
  bool mla = false;
  Support cross_attention = Support::kNo;
  Speculative speculative = Speculative::kNone;      // for MHA models
  Speculative speculative_mla = Speculative::kNone;  // for MLA models
  std::span<const std::int32_t> page_sizes;          // best first
  std::span<const KvType> kv_types;                  // best first; the first is what auto means
  std::span<const std::int32_t> head_dims;
  std::int32_t max_head_dim = 0;  // 0: no limit
  Support window = Support::kUnknown, sinks = Support::kUnknown, soft_cap = Support::kUnknown;
  Device device = Device::kOther;
  std::int32_t min_sm = 0, max_sm = 0;  // CUDA compute capability ×10, both inclusive; 0: no bound
  std::string_view machine;             // the device in words: "an NVIDIA Hopper GPU (SM90)"
  bool in_this_build = false;           // whether kernels for it exist here
  std::string_view note;                // where quern's own kernels serve more than SGLang's, etc.
};

// One layer's attention, in the same numbers for MHA, GQA, MQA, MLA and cross attention.
struct AttentionLayer {
  std::int32_t layer = 0;     // which layer of the cache
  std::int32_t heads = 0;     // query heads
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;    // of queries and keys
  std::int32_t v_head_dim = 0;  // of values and outputs
  float scale = 1.0f;           // applied to q·k
  std::int32_t window = 0;      // keys a query sees, itself counted; 0: all
  float soft_cap = 0.0f;        // 0: none
  const float* sinks = nullptr;  // [heads], or null
  bool causal = true;
};

// Runs on the engine's thread; splits its work over the pool.
class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  virtual const BackendInfo& info() const = 0;
  // Once per step, before the layers. `batch` outlives the step.
  virtual void plan(const Batch& batch) = 0;
  // Stores k and v of the new tokens into their pages, then attends.
  // q [tokens, heads, head_dim], k [tokens, kv_heads, head_dim], v [tokens, kv_heads, v_head_dim],
  // out [tokens, heads, v_head_dim]; all f32.
  virtual void forward(const AttentionLayer& layer, const float* q, const float* k, const float* v,
                       cache::KvStore& store, float* out) = 0;
};

// Page layouts that the backend accepts for these needs, best first.
using LayoutList = std::vector<cache::KvLayout>;

// A row of the table: the contract, and how to make the backend (null where this build cannot).
struct BackendRow {
  BackendInfo info;
  std::unique_ptr<AttentionBackend> (*create)(ThreadPool& pool) = nullptr;
  LayoutList (*kv_layouts)(const Needs& needs) = nullptr;
};

}  // namespace quern::attention

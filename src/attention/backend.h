// An attention backend: data first (BackendInfo), code second (AttentionBackend). The table of all
// backends is registry.cpp; docs/architecture.md tells how to add one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attention/mla.h"
#include "attention/needs.h"
#include "base/error.h"
#include "base/threads.h"
#include "cache/kv_store.h"
#include "core/batch.h"

namespace quern::attention {

struct Hardware;  // attention/hardware.h

enum class Device { kAnyCpu, kX86Amx, kCuda, kAnyGpu, kAmd, kAscend, kIntelGpu, kOther };
enum class Speculative { kNone, kOneBranch, kTree, kUnknown };
enum class Support { kNo, kYes, kUnknown };

struct HeadDims {
  std::int32_t qk = 0, v = 0;
};

// CUDA compute capabilities ×10, both included.
struct SmRange {
  std::int32_t low = 0, high = 0;
};

// What a backend is to do: the whole work, or one half of a prefill/decode split.
enum class Phase { kBoth, kPrefill, kDecode };

// The checks in quern's order: what the model is, what the flags ask, page size, KV type and head
// dims, then the machine, last what this build lacks. Of several refusals the first is the error.
enum class Check {
  kModel,
  kCrossAttention,
  kPhase,
  kSpeculative,
  kTopk,
  kDeterministic,
  kPageSize,
  kKvType,
  kHeadDim,
  kWindow,
  kSinks,
  kSoftCap,
  kHardware,
  kBuild,
};

// What a row's columns cannot say, as the catalogue's entry and what is offered instead.
struct Caveat {
  Check check;
  ErrorId id;
  std::string offered;
};

// The contract of a backend as data. Spans point to static storage; an empty span means any.
struct BackendInfo {
  std::string_view name = {};
  bool mha = false;
  bool mla = false;
  std::span<const std::string_view> architectures = {};  // of the only models it serves
  std::string_view own_models = {};  // those in words; not empty: it serves no other
  bool dual_chunk = false;           // its own models are those with dual chunk attention
  // For MLA models decode only; the prefill is this backend's where no flag says otherwise.
  bool mla_decode_only = false;
  std::string_view mla_prefill_partner = {};
  Support cross_attention = Support::kNo;
  bool cross_with_window = false;
  Speculative speculative = Speculative::kNone;       // for MHA models
  Speculative speculative_mla = Speculative::kNone;   // for MLA models
  std::span<const std::int32_t> page_sizes = {};      // best first
  std::span<const std::int32_t> page_sizes_mla = {};  // empty: as page_sizes
  // Where the sizes depend on model and machine; null: the two lists above.
  std::span<const std::int32_t> (*pages)(const Needs&, const Hardware&) = nullptr;
  // Trees of drafts want page size 1: for MHA, for MLA, with a sliding window.
  bool tree_page_one = false, tree_page_one_mla = false, tree_page_one_window = false;
  bool ngram_tree_pages = false;  // serves trees of NGRAM drafts with larger pages
  bool deterministic = false;     // --enable-deterministic-inference
  bool deterministic_mla = false;
  std::span<const KvType> kv_types = {};      // best first; the first is what auto means
  std::span<const KvType> kv_types_mla = {};  // empty: as kv_types
  bool fp4_prefill = false;  // beside kv_types an FP4 cache, as the prefill half of a split
  std::span<const std::int32_t> head_dims = {};
  std::int32_t max_head_dim = 0;       // 0: no limit
  std::int32_t head_dim_multiple = 1;  // of QK
  bool equal_head_dims = false;        // QK = V
  std::span<const HeadDims> head_dims_mla = {};
  Support window = Support::kUnknown, sinks = Support::kUnknown, soft_cap = Support::kUnknown;
  bool plain_mla = false;  // for MLA models no window, sinks or cap
  Device device = Device::kOther;
  std::span<const SmRange> sm = {}, sm_mla = {};  // sm_mla empty: as sm
  std::string_view machine = {};  // the device in words: "an NVIDIA Hopper GPU (SM90)"
  std::optional<Caveat> (*caveat)(const Needs&, const Hardware&) = nullptr;
  bool in_this_build = false;  // whether kernels for it exist here
  // What the kernels of this build serve of the contract, beside plain MHA.
  bool mla_in_build = false, cross_in_build = false, speculative_in_build = false;
  bool portable = false;       // --simulate-hardware runs its contract on portable kernels
  std::string_view note = {};  // where quern's own kernels serve more than SGLang's, etc.
};

// One layer's attention, in the same numbers for MHA, GQA, MQA and cross attention; MlaLayer is
// that of MLA.
struct AttentionLayer {
  std::int32_t layer = 0;  // which layer of the cache
  std::int32_t heads = 0;  // query heads
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;     // of queries and keys
  std::int32_t v_head_dim = 0;   // of values and outputs
  float scale = 1.0f;            // applied to q·k
  std::int32_t window = 0;       // keys a query sees, itself counted; 0: all
  float soft_cap = 0.0f;         // 0: none
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
  // The same for latent attention over a cache of latent rows: stores the new tokens' rows, then
  // attends, each sequence as runs_expanded() says.
  // Requires: info().mla_in_build, or a simulated contract for MLA.
  virtual void forward_mla(const MlaLayer& layer, const MlaInputs& inputs, cache::KvStore& store);
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

#include "attention/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "attention/backends/cpu_flash.h"
#include "attention/backends/infos.h"
#include "attention/backends/torch_native.h"
#include "base/errors/attention.h"

namespace quern::attention {
namespace {

// The contract of one backend over the kernels of another.
class Contract final : public AttentionBackend {
 public:
  Contract(const BackendInfo& info, std::unique_ptr<AttentionBackend> kernels)
      : info_(info), kernels_(std::move(kernels)) {}
  const BackendInfo& info() const override { return info_; }
  void plan(const Batch& batch) override { kernels_->plan(batch); }
  void forward(const AttentionLayer& layer, const float* q, const float* k, const float* v,
               cache::KvStore& store, float* out) override {
    kernels_->forward(layer, q, k, v, store, out);
  }
  void forward_mla(const MlaLayer& layer, const MlaInputs& inputs, cache::KvStore& store) override {
    kernels_->forward_mla(layer, inputs, store);
  }

 private:
  const BackendInfo& info_;
  std::unique_ptr<AttentionBackend> kernels_;
};

// A sequence with one new token is decoded, any other is prefilled. Rows keep their places in the
// step's arrays, so a half sees the same q, k, v and out, and only its own sequences.
class Split final : public AttentionBackend {
 public:
  Split(std::unique_ptr<AttentionBackend> prefill, std::unique_ptr<AttentionBackend> decode)
      : prefill_(std::move(prefill)), decode_(std::move(decode)) {}
  const BackendInfo& info() const override { return decode_->info(); }

  void plan(const Batch& batch) override {
    for (Batch* part : {&prefill_batch_, &decode_batch_}) part->clear();
    for (const SequenceSlice& sequence : batch.sequences) {
      (sequence.query_len == 1 ? decode_batch_ : prefill_batch_).sequences.push_back(sequence);
    }
    if (!prefill_batch_.sequences.empty()) prefill_->plan(prefill_batch_);
    if (!decode_batch_.sequences.empty()) decode_->plan(decode_batch_);
  }

  void forward(const AttentionLayer& layer, const float* q, const float* k, const float* v,
               cache::KvStore& store, float* out) override {
    if (!prefill_batch_.sequences.empty()) prefill_->forward(layer, q, k, v, store, out);
    if (!decode_batch_.sequences.empty()) decode_->forward(layer, q, k, v, store, out);
  }

  void forward_mla(const MlaLayer& layer, const MlaInputs& inputs, cache::KvStore& store) override {
    if (!prefill_batch_.sequences.empty()) prefill_->forward_mla(layer, inputs, store);
    if (!decode_batch_.sequences.empty()) decode_->forward_mla(layer, inputs, store);
  }

 private:
  std::unique_ptr<AttentionBackend> prefill_, decode_;
  Batch prefill_batch_, decode_batch_;  // of the current step: sequences alone
};

// Page sizes that the vector kernels lack run on the reference layout.
bool packs(std::int64_t page_size) {
  return std::find(std::begin(kCpuFlashPageSizes), std::end(kCpuFlashPageSizes), page_size) !=
         std::end(kCpuFlashPageSizes);
}

// A contract that takes any page size runs with single tokens where no flag says otherwise, as
// SGLang does.
Needs portable_needs(const Needs& needs) {
  Needs portable = needs;
  portable.page_size = std::max<std::int64_t>(1, needs.page_size);
  const bool fp8_rows = needs.mla && needs.kv_type == KvType::kFp8E4M3;
  portable.kv_type = fp8_rows ? KvType::kFp8E4M3 : KvType::kBF16;
  return portable;
}

LayoutList layouts_of(const BackendRow& row, const Needs& needs) {
  if (row.kv_layouts) return row.kv_layouts(needs);
  const Needs portable = portable_needs(needs);
  // Latent rows lie plainly whatever the page size, and fp8 ones take a byte each.
  if (needs.mla) return torch_native_layouts(portable);
  LayoutList layouts =
      packs(portable.page_size) ? cpu_flash_layouts(portable) : torch_native_layouts(portable);
  // bf16 holds every fp8_e4m3 value, so the results are those of an fp8 cache, its size is not.
  for (cache::KvLayout& layout : layouts) layout.fp8_values = needs.kv_type == KvType::kFp8E4M3;
  return layouts;
}

std::unique_ptr<AttentionBackend> create(const BackendRow& row, const cache::KvLayout& layout,
                                         ThreadPool& pool) {
  if (row.create) return row.create(pool);
  // What cpu_flash reads: packed pages and latent rows.
  const bool vectors = layout.format == cache::PageFormat::kPacked || layout.latent();
  return std::make_unique<Contract>(row.info,
                                    vectors ? make_cpu_flash(pool) : make_torch_native(pool));
}

}  // namespace

cache::KvLayout layout_of(const Plan& plan, const Needs& needs) {
  Needs settled = needs;
  settled.page_size = plan.page_size;
  const LayoutList wanted = layouts_of(*plan.decode.row, settled);
  const LayoutList offered = layouts_of(*plan.prefill.row, settled);
  const auto common =
      std::find_first_of(wanted.begin(), wanted.end(), offered.begin(), offered.end());
  if (common == wanted.end()) {
    throw Error(errors::kKvLayoutConflict, {{"prefill", plan.prefill.row->info.name},
                                            {"decode", plan.decode.row->info.name},
                                            {"param", "--prefill-attention-backend"}});
  }
  return *common;
}

std::unique_ptr<AttentionBackend> assemble(const Plan& plan, const cache::KvLayout& layout,
                                           ThreadPool& pool) {
  auto decode = create(*plan.decode.row, layout, pool);
  if (!plan.split()) return decode;
  return std::make_unique<Split>(create(*plan.prefill.row, layout, pool), std::move(decode));
}

}  // namespace quern::attention

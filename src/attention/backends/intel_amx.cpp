#include "attention/backends/intel_amx.h"

#include "attention/backends/cpu_flash.h"
#include "base/errors/attention.h"
#include "kernels/ops.h"

namespace quern::attention {
namespace {

constexpr KvType kBf16Only[] = {KvType::kBF16};
// A tile of values is 32 tokens, which pages of 16 have to be put together for.
constexpr std::int32_t kPageSizes[] = {32, 64, 128, 16};

std::optional<Caveat> caveat(const Needs& needs, const Hardware&) {
  const bool tree = needs.speculative_topk > 1 && !needs.speculative_algorithm.empty();
  if (tree && (needs.window || needs.encoder_decoder)) {
    return Caveat{Check::kTopk, errors::kTopkUnsupported,
                  "topk = 1 with a window or cross attention"};
  }
  if (needs.mla && needs.soft_cap) {
    return Caveat{Check::kSoftCap, errors::kSoftCapUnsupported, "no cap for MLA"};
  }
  return std::nullopt;
}

}  // namespace

constinit const BackendInfo kIntelAmxInfo = {
    .name = "intel_amx",
    .mha = true,
    .mla = true,
    .cross_attention = Support::kYes,
    .cross_with_window = true,
    .speculative = Speculative::kTree,
    .speculative_mla = Speculative::kTree,
    .page_sizes = kPageSizes,
    .kv_types = kBf16Only,
    .window = Support::kYes,
    .sinks = Support::kYes,
    .soft_cap = Support::kYes,
    .device = Device::kX86Amx,
    .machine = "an x86 processor with AMX tiles",
    .caveat = caveat,
    .in_this_build = true,
    .mla_in_build = true,
    .note = "not timed yet; SGLang's keeps float16 too",
};

std::unique_ptr<AttentionBackend> make_intel_amx(ThreadPool& pool) {
  if (const kernels::Attend tiles = kernels::tile_attention()) {
    return make_tiled(pool, kIntelAmxInfo, tiles, kernels::kTileRows);
  }
  return make_tiled(pool, kIntelAmxInfo, kernels::ops().attend_bf16, kernels::kAttendRows);
}

LayoutList intel_amx_layouts(const Needs& needs) {
  Needs own = needs;
  own.kv_type = KvType::kBF16;
  return cpu_flash_layouts(own);
}

}  // namespace quern::attention

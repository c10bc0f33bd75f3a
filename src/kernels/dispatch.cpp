#include "kernels/dispatch.h"

#include <cstdlib>
#include <string>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/errors/base.h"
#include "kernels/cpu/amx_ops.h"

namespace quern::kernels {
namespace {

std::string forced_isa() {
  const char* forced = std::getenv("QUERN_ISA");
  return forced ? forced : "";
}

}  // namespace

const Ops* ops_for(Isa isa) {
#if defined(__x86_64__)
  const CpuFeatures& cpu = cpu_features();
  if (isa == Isa::kAvx512 && cpu.avx2_fma_f16c && cpu.avx512_vnni && cpu.avx512_bf16) {
    return &kAvx512Ops;
  }
  if (isa == Isa::kAvx2 && cpu.avx2_fma_f16c) return &kAvx2Ops;
#endif
  return isa == Isa::kRef ? &kRefOps : nullptr;
}

const Ops& ops() {
  static const Ops& chosen = []() -> const Ops& {
    const std::string word = forced_isa();
    constexpr std::string_view kAllowed = "ref, avx2, avx512, as far as the processor has them";
    if (!word.empty()) {
      const Ops* table = word == "ref"      ? ops_for(Isa::kRef)
                         : word == "avx2"   ? ops_for(Isa::kAvx2)
                         : word == "avx512" ? ops_for(Isa::kAvx512)
                                            : nullptr;
      if (table) return *table;
      throw Error(errors::kInvalidFlagValue,
                  {{"flag", "QUERN_ISA"}, {"value", word}, {"allowed", kAllowed}});
    }
    for (Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
      if (const Ops* table = ops_for(isa)) return *table;
    }
    return kRefOps;
  }();
  return chosen;
}

Attend tile_attention() {
#if defined(__x86_64__)
  if (cpu_features().amx_bf16 && ops_for(Isa::kAvx512) && forced_isa().empty()) {
    return attend_bf16_amx;
  }
#endif
  return nullptr;
}

}  // namespace quern::kernels

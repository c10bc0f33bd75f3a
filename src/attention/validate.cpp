#include "attention/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "attention/registry.h"
#include "base/errors/attention.h"
#include "base/errors/model.h"

namespace quern::attention {
namespace {

// Where SGLang has its own sentence for a backend; elsewhere the general entry speaks. The first
// that holds counts.
struct OwnWords {
  std::string_view backend;
  Check check;
  ErrorId id;
  bool (*when)(const Needs&, Phase) = nullptr;  // null: always
};

bool is_mla(const Needs& needs, Phase) { return needs.mla; }
bool is_decode(const Needs&, Phase phase) { return phase == Phase::kDecode; }
bool is_large_page(const Needs& needs, Phase) { return needs.page_size == 128; }

constexpr std::array kOwnWords = {
    OwnWords{"trtllm_mha", Check::kModel, errors::kTrtllmMhaMlaModel},
    OwnWords{"hpc_ops", Check::kModel, errors::kHpcOpsMlaModel},
    OwnWords{"trtllm_mla", Check::kModel, errors::kTrtllmMlaNonMlaModel},
    OwnWords{"cutedsl_mla", Check::kModel, errors::kCutedslMlaNonMlaModel},
    OwnWords{"tokenspeed_mla", Check::kModel, errors::kTokenspeedMlaNonMlaModel},
    OwnWords{"flashmla", Check::kModel, errors::kFlashmlaNonMlaModel},
    OwnWords{"cutlass_mla", Check::kModel, errors::kCutlassMlaNonMlaModel},
    OwnWords{"hpc_ops", Check::kCrossAttention, errors::kHpcOpsCrossAttention},
    OwnWords{"triton", Check::kCrossAttention, errors::kTritonCrossAttention},
    OwnWords{"flex_attention", Check::kCrossAttention, errors::kFlexCrossAttention},
    OwnWords{"hpc_ops", Check::kSpeculative, errors::kHpcOpsSpeculative},
    OwnWords{"flex_attention", Check::kSpeculative, errors::kFlexSpeculative},
    OwnWords{"trtllm_mha", Check::kTopk, errors::kTrtllmMhaTopk},
    OwnWords{"flashinfer", Check::kTopk, errors::kFlashinferMlaTopk, is_mla},
    OwnWords{"flashmla", Check::kTopk, errors::kFlashMlaTopk},
    OwnWords{"aiter", Check::kTopk, errors::kAiterTopk},
    OwnWords{"hpc_ops", Check::kPageSize, errors::kHpcOpsPageSize},
    OwnWords{"tokenspeed_mla", Check::kPageSize, errors::kTokenspeedMlaPageSize},
    OwnWords{"trtllm_mha", Check::kPageSize, errors::kTrtllmMhaPageSize128, is_large_page},
    OwnWords{"hpc_ops", Check::kKvType, errors::kHpcOpsKvType},
    OwnWords{"tokenspeed_mla", Check::kKvType, errors::kTokenspeedMlaKvType},
    OwnWords{"trtllm_mla", Check::kKvType, errors::kTrtllmMlaKvType},
    OwnWords{"cutedsl_mla", Check::kKvType, errors::kCutedslMlaKvType},
    OwnWords{"dsa", Check::kKvType, errors::kDsaKvType},
    OwnWords{"dsv4", Check::kKvType, errors::kDsv4KvType},
    OwnWords{"hpc_ops", Check::kHeadDim, errors::kHpcOpsHeads},
    OwnWords{"hpc_ops", Check::kWindow, errors::kHpcOpsWindow},
    OwnWords{"hpc_ops", Check::kSoftCap, errors::kHpcOpsSoftCap},
    OwnWords{"fa3", Check::kHardware, errors::kFa3Sm},
    OwnWords{"trtllm_mla", Check::kHardware, errors::kTrtllmMlaSm},
    OwnWords{"tokenspeed_mla", Check::kHardware, errors::kTokenspeedMlaSm},
    OwnWords{"cutedsl_mla", Check::kHardware, errors::kCutedslMlaSm},
    OwnWords{"trtllm_mha", Check::kHardware, errors::kTrtllmMhaDecodeSm, is_decode},
    OwnWords{"trtllm_mha", Check::kHardware, errors::kTrtllmMhaPrefillSm},
    OwnWords{"hpc_ops", Check::kHardware, errors::kHpcOpsSm},
};

// Backends of SGLang that take an FP4 cache beside fa4's prefill (its own lists).
constexpr std::string_view kFp4Mla[] = {"cutlass_mla", "flashinfer", "trtllm_mla"};
constexpr std::string_view kFp4Mha[] = {"triton", "torch_native", "flex_attention", "trtllm_mha"};

bool contains(std::span<const std::int32_t> list, std::int64_t value) {
  return std::any_of(list.begin(), list.end(), [&](std::int32_t item) { return item == value; });
}

template <typename List, typename F>
std::string join(const List& list, F word) {
  std::string text;
  for (const auto& item : list) text += fmt::format("{}{}", text.empty() ? "" : ", ", word(item));
  return text;
}

bool within(std::span<const SmRange> ranges, int sm) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const SmRange& range) { return sm >= range.low && sm <= range.high; });
}

// One backend against one model, machine and command line; collects the refusals in order.
class Validation {
 public:
  Validation(const BackendInfo& info, const Needs& needs, const Hardware& hardware, Phase phase)
      : info_(info), needs_(needs), hardware_(hardware), phase_(phase) {}

  std::vector<Refusal> run() {
    check_model();
    check_cross_attention();
    check_phase();
    check_speculative();
    check_deterministic();
    check_page_size();
    check_kv_type();
    check_head_dims();
    check_features();
    check_caveat();
    check_hardware();
    check_build();
    std::stable_sort(refusals_.begin(), refusals_.end(),
                     [](const Refusal& a, const Refusal& b) { return a.check < b.check; });
    return std::move(refusals_);
  }

 private:
  void refuse(Check check, ErrorId id, std::string wanted, std::string offered,
              std::vector<ErrorField> fields = {}) {
    refusals_.push_back(refusal_of(check, id, info_, needs_, hardware_, std::move(wanted),
                                   std::move(offered), std::move(fields)));
  }

  const OwnWords* own_words(Check check) const {
    for (const OwnWords& words : kOwnWords) {
      if (words.backend != info_.name || words.check != check) continue;
      if (!words.when || words.when(needs_, phase_)) return &words;
    }
    return nullptr;
  }

  void refuse_own(Check check, ErrorId general, std::string wanted, std::string offered) {
    const OwnWords* words = own_words(check);
    refuse(check, words ? words->id : general, std::move(wanted), std::move(offered));
  }

  void check_model() {
    if (!info_.own_models.empty() && !own_model()) {
      refuse(Check::kModel, errors::kModelNotServed, needs_.architecture,
             std::string(info_.own_models));
    }
    if (needs_.dual_chunk && !info_.dual_chunk) {
      refuse(Check::kModel, errors::kDualChunkRequired, "dual chunk attention",
             "dual_chunk_flash_attn");
    }
    if (needs_.mla && !info_.mla) {
      refuse_own(Check::kModel, errors::kNonMlaBackendOnly, "an MLA model", "MHA models");
    } else if (!needs_.mla && !info_.mha) {
      refuse_own(Check::kModel, errors::kMlaBackendOnly, "an MHA model", "MLA models");
    }
  }

  bool own_model() const {
    const auto& list = info_.architectures;
    return (info_.dual_chunk && needs_.dual_chunk) ||
           std::find(list.begin(), list.end(), needs_.architecture) != list.end();
  }

  void check_cross_attention() {
    if (!needs_.encoder_decoder) return;
    if (info_.cross_attention == Support::kNo) {
      refuse_own(Check::kCrossAttention, errors::kCrossAttentionUnsupported, "cross attention",
                 "self attention only");
    } else if (needs_.window && !info_.cross_with_window) {
      refuse(Check::kCrossAttention, errors::kWindowWithCrossAttention,
             "a window and cross attention", "one of them");
    }
  }

  // As a whole backend one that only decodes takes its partner's prefill, where it has one.
  void check_phase() {
    if (!needs_.mla || !info_.mla_decode_only || phase_ == Phase::kDecode) return;
    const bool partnered = !info_.mla_prefill_partner.empty();
    if (partnered && phase_ == Phase::kBoth) return;
    refuse(Check::kPhase, partnered ? errors::kCutedslMlaPrefill : errors::kIntelXpuMlaPrefill,
           "prefill", "decode only");
  }

  // The page size that would be used; 1 where neither flag nor backend asks for more.
  std::int64_t effective_page_size() const {
    if (needs_.page_size > 0) return needs_.page_size;
    const auto sizes = page_sizes_of(info_, needs_, hardware_);
    return sizes.empty() || contains(sizes, 1) ? 1 : sizes.front();
  }

  void check_speculative() {
    const std::string& algorithm = needs_.speculative_algorithm;
    if (algorithm.empty()) return;
    const Speculative offer = needs_.mla ? info_.speculative_mla : info_.speculative;
    if (offer == Speculative::kNone) {
      const bool eagle = algorithm.starts_with("EAGLE");
      const ErrorId id = !eagle                      ? errors::kSpeculativeUnsupported
                         : phase_ == Phase::kPrefill ? errors::kEagleUnsupported
                                                     : errors::kEagleDecodeUnsupported;
      refuse_own(Check::kSpeculative, id, algorithm, "plain decoding only");
      return;
    }
    if (needs_.speculative_topk <= 1) return;
    const std::string wanted = fmt::format("topk {}", needs_.speculative_topk);
    if (offer == Speculative::kOneBranch) {
      refuse_own(Check::kTopk, errors::kTopkUnsupported, wanted, "topk 1");
    }
    if (effective_page_size() <= 1) return;
    if (!needs_.mla && info_.tree_page_one) {
      refuse(Check::kTopk, errors::kTopkPageSize, wanted, "page size 1");
    } else if (needs_.mla ? info_.tree_page_one_mla : needs_.window && info_.tree_page_one_window) {
      refuse(Check::kTopk, errors::kTreePageSize, wanted, "page size 1");
    } else if (algorithm == "NGRAM" && !info_.ngram_tree_pages) {
      refuse(Check::kTopk, errors::kNgramTopkPageSize, wanted, "page size 1");
    }
  }

  void check_deterministic() {
    if (!needs_.deterministic) return;
    const auto allow = [&](ErrorId id, std::string wanted, bool BackendInfo::*column) {
      std::string names = backend_names([&](const BackendInfo& info) { return info.*column; });
      refuse(Check::kDeterministic, id, std::move(wanted), names, {{"allowed", names}});
    };
    if (!info_.deterministic) {
      allow(errors::kDeterministicBackend, "deterministic inference", &BackendInfo::deterministic);
    } else if (needs_.mla && !info_.deterministic_mla) {
      allow(errors::kDeterministicMlaBackend, "deterministic inference with MLA",
            &BackendInfo::deterministic_mla);
    } else if (needs_.mla && info_.name == "fa4" && hardware_.sm &&
               (*hardware_.sm < 100 || *hardware_.sm > 119)) {
      refuse(Check::kDeterministic, errors::kDeterministicFa4Mla,
             "deterministic inference with MLA", "SM100, SM110");
    }
  }

  void check_page_size() {
    const auto sizes = page_sizes_of(info_, needs_, hardware_);
    if (needs_.page_size == 0 || sizes.empty() || contains(sizes, needs_.page_size)) return;
    refuse_own(Check::kPageSize, errors::kPageSizeUnsupported,
               fmt::format("page size {}", needs_.page_size),
               join(sizes, [](std::int32_t size) { return size; }));
  }

  void check_kv_type() {
    const KvType type = needs_.kv_type;
    const auto types = kv_types_of(info_, needs_);
    const bool served = type == KvType::kAuto || types.empty() ||
                        std::find(types.begin(), types.end(), type) != types.end();
    // A backend's own sentence stands before the rules of narrow caches, as in SGLang.
    const bool gpu = info_.device == Device::kCuda || info_.device == Device::kAnyGpu;
    const bool own = !served && own_words(Check::kKvType);
    if (gpu && !own && check_fp4()) return;
    if (served) return;
    refuse_own(Check::kKvType, errors::kKvTypeUnsupported, std::string(name_of(type)),
               join(types, [](KvType known) { return name_of(known); }));
  }

  // SGLang's rules of narrow caches; true where one of them speaks, or fa4's prefill takes the
  // type.
  bool check_fp4() {
    const KvType type = needs_.kv_type;
    const std::string wanted(name_of(type));
    if (type == KvType::kMxFp8 && hardware_.sm && *hardware_.sm < 100) {
      refuse(Check::kKvType, errors::kMxFp8Sm, wanted, "SM100 or later");
      return true;
    }
    if (!is_fp4(type)) return false;
    if (!hardware_.sm) {
      refuse(Check::kKvType, errors::kKv4NotCuda, wanted, "an NVIDIA GPU");
      return true;
    }
    const int sm = *hardware_.sm;
    if (type == KvType::kNvFp4 && !(sm >= 100 && sm <= 109) && !(sm >= 120 && sm <= 129)) {
      refuse(Check::kKvType, errors::kNvFp4Sm, wanted, "SM100, SM12x");
      return true;
    }
    if (phase_ == Phase::kPrefill && info_.fp4_prefill) return true;
    if (phase_ != Phase::kBoth) return false;  // of pairs only fa4's has a rule, in plan.cpp
    const std::span<const std::string_view> list = needs_.mla
                                                       ? std::span<const std::string_view>(kFp4Mla)
                                                       : std::span<const std::string_view>(kFp4Mha);
    if (std::find(list.begin(), list.end(), info_.name) != list.end()) return false;
    const std::string names = join(list, [](std::string_view name) { return name; });
    refuse(Check::kKvType, needs_.mla ? errors::kKv4MlaBackend : errors::kKv4MhaBackend, wanted,
           names, {{"allowed", names}});
    return true;
  }

  // The head dims this backend offers for this kind of model, where these are none of them.
  std::string head_dims_offered() const {
    const std::int64_t qk = needs_.head_dim, v = needs_.v_head_dim;
    if (needs_.mla) {
      const auto served = [&](const HeadDims& dims) { return dims.qk == qk && dims.v == v; };
      const auto list = info_.head_dims_mla;
      if (list.empty() || std::any_of(list.begin(), list.end(), served)) return {};
      return join(list, [](const HeadDims& dims) { return fmt::format("{}/{}", dims.qk, dims.v); });
    }
    if (!info_.head_dims.empty() && !contains(info_.head_dims, qk)) {
      return join(info_.head_dims, [](std::int32_t dim) { return dim; });
    }
    if (info_.max_head_dim > 0 && qk > info_.max_head_dim) {
      return fmt::format("at most {}", info_.max_head_dim);
    }
    if (qk % info_.head_dim_multiple != 0) {
      return fmt::format("multiples of {}", info_.head_dim_multiple);
    }
    return info_.equal_head_dims && qk != v ? "QK = V" : "";
  }

  void check_head_dims() {
    if (needs_.head_dim <= 0) return;
    if (needs_.mla ? !info_.mla : !info_.mha) return;  // its dims are of another kind of model
    std::string offered = head_dims_offered();
    if (offered.empty()) return;
    refuse_own(Check::kHeadDim, errors::kHeadDimUnsupported,
               fmt::format("head dims {}/{}", needs_.head_dim, needs_.v_head_dim),
               std::move(offered));
  }

  void check_features() {
    const bool plain = needs_.mla && info_.plain_mla;
    if (needs_.window && (plain || info_.window == Support::kNo)) {
      refuse_own(Check::kWindow, errors::kWindowUnsupported, "a sliding window", "no window");
    }
    if (needs_.sinks && (plain || info_.sinks == Support::kNo)) {
      refuse(Check::kSinks, errors::kSinksUnsupported, "attention sinks", "no sinks");
    }
    if (needs_.soft_cap && (plain || info_.soft_cap == Support::kNo)) {
      refuse_own(Check::kSoftCap, errors::kSoftCapUnsupported, "a logit soft cap", "no cap");
    }
  }

  void check_caveat() {
    if (!info_.caveat) return;
    const auto caveat = info_.caveat(needs_, hardware_);
    if (!caveat) return;
    const bool stands = std::any_of(refusals_.begin(), refusals_.end(),
                                    [&](const Refusal& r) { return r.id == caveat->id; });
    if (!stands) refuse(caveat->check, caveat->id, "these flags on this model", caveat->offered);
  }

  bool device_found() const {
    switch (info_.device) {
      case Device::kAnyCpu: return true;
      case Device::kX86Amx: return hardware_.x86 && hardware_.amx;
      case Device::kCuda: {
        const auto ranges = needs_.mla && !info_.sm_mla.empty() ? info_.sm_mla : info_.sm;
        return hardware_.sm && (ranges.empty() || within(ranges, *hardware_.sm));
      }
      case Device::kAnyGpu: return hardware_.sm || hardware_.amd_gpu || hardware_.intel_gpu;
      case Device::kAmd: return hardware_.amd_gpu;
      case Device::kAscend: return hardware_.ascend;
      case Device::kIntelGpu: return hardware_.intel_gpu;
      case Device::kOther: return false;
    }
    return false;
  }

  void check_hardware() {
    if (!device_found()) {
      refuse_own(Check::kHardware, errors::kHardwareMissing, hardware_.description,
                 std::string(info_.machine));
      return;
    }
    const bool accelerator = info_.device != Device::kAnyCpu && info_.device != Device::kX86Amx;
    if (needs_.speculative_algorithm == "NGRAM" && accelerator && !hardware_.sm) {
      refuse(Check::kHardware, errors::kNgramDevice, hardware_.description, "CUDA or a CPU");
    }
  }

  void check_build() {
    if (!needs_.families_instead.empty()) {
      refuse(Check::kBuild, errors::kModelFamilyNotServed, needs_.architecture,
             needs_.families_instead, {{"served", needs_.families_instead}});
    }
    std::vector<std::string> lacking;
    const bool own = info_.in_this_build;
    if (!has_kernels(info_, hardware_)) {
      lacking.push_back("kernels");
    } else {
      if (needs_.mla && own && !info_.mla_in_build) lacking.push_back("MLA kernels");
      if (needs_.encoder_decoder && !(own && info_.cross_in_build)) {
        lacking.push_back("cross-attention kernels");
      }
      if (!needs_.speculative_algorithm.empty() && !(own && info_.speculative_in_build)) {
        lacking.push_back("speculative decoding");
      }
      if (!own && !portable_kv_type(needs_.kv_type)) {
        lacking.push_back(fmt::format("{} KV cache", name_of(needs_.kv_type)));
      }
    }
    if (lacking.empty()) return;
    const std::string text = join(lacking, [](std::string_view word) { return word; });
    refuse(Check::kBuild, errors::kBackendNotInBuild, text, text);
  }

  // What the portable kernels keep under the contract of an accelerator's backend.
  static bool portable_kv_type(KvType type) {
    return type == KvType::kAuto || type == KvType::kBF16 || type == KvType::kFp8E4M3;
  }

  const BackendInfo& info_;
  const Needs& needs_;
  const Hardware& hardware_;
  const Phase phase_;
  std::vector<Refusal> refusals_;
};

}  // namespace

Refusal refusal_of(Check check, ErrorId id, const BackendInfo& info, const Needs& needs,
                   const Hardware& hardware, std::string wanted, std::string offered,
                   std::vector<ErrorField> fields) {
  // Thousands are made in one check, so only what the message has a place for is written out.
  const std::string_view pattern = error_entry(id).message;
  const auto add = [&](std::string_view name, const auto& value) {
    if (pattern.find(name) != pattern.npos) fields.emplace_back(name, value);
  };
  add("name", info.name);
  add("architecture", needs.architecture);
  add("algorithm", needs.speculative_algorithm);
  add("topk", needs.speculative_topk);
  add("draft_tokens", needs.draft_tokens);
  add("page_size", needs.page_size);
  add("kv_type", name_of(needs.kv_type));
  add("head_dim", needs.head_dim);
  add("v_head_dim", needs.v_head_dim);
  add("heads", needs.heads);
  add("kv_heads", needs.kv_heads);
  add("sm", hardware.sm ? fmt::format("sm{}", *hardware.sm) : std::string("no NVIDIA GPU"));
  add("machine", info.machine);
  add("hardware", hardware.description);
  add("offered", offered);
  std::string message = Error(id, fields).message();
  return {
      check,    id, std::move(message), std::move(wanted), std::move(offered), std::move(fields),
      info.name};
}

std::span<const std::int32_t> page_sizes_of(const BackendInfo& info, const Needs& needs,
                                            const Hardware& hardware) {
  if (info.pages) return info.pages(needs, hardware);
  return needs.mla && !info.page_sizes_mla.empty() ? info.page_sizes_mla : info.page_sizes;
}

std::span<const KvType> kv_types_of(const BackendInfo& info, const Needs& needs) {
  return needs.mla && !info.kv_types_mla.empty() ? info.kv_types_mla : info.kv_types;
}

bool is_fp4(KvType type) { return type == KvType::kNvFp4 || type == KvType::kFp4; }

bool has_kernels(const BackendInfo& info, const Hardware& hardware) {
  return info.in_this_build || (hardware.simulated && info.portable);
}

std::vector<Refusal> validate(const BackendInfo& info, const Needs& needs, const Hardware& hardware,
                              Phase phase) {
  return Validation(info, needs, hardware, phase).run();
}

}  // namespace quern::attention

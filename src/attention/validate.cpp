#include "attention/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/errors/attention.h"

namespace quern::attention {
namespace {

enum class Check {
  kMlaModel,
  kNonMlaModel,
  kCrossAttention,
  kSpeculative,
  kTopk,
  kPageSize,
  kKvType,
  kHeadDim,
  kWindow,
  kSoftCap,
  kHardware,
};

// Where SGLang has its own sentence for a backend; elsewhere the general entry speaks.
struct OwnWords {
  std::string_view backend;
  Check check;
  ErrorId id;
};
constexpr std::array kOwnWords = {
    OwnWords{"trtllm_mha", Check::kMlaModel, errors::kTrtllmMhaMlaModel},
    OwnWords{"hpc_ops", Check::kMlaModel, errors::kHpcOpsMlaModel},
    OwnWords{"intel_xpu", Check::kMlaModel, errors::kIntelXpuMlaPrefill},
    OwnWords{"hpc_ops", Check::kCrossAttention, errors::kHpcOpsCrossAttention},
    OwnWords{"triton", Check::kCrossAttention, errors::kTritonCrossAttention},
    OwnWords{"flex_attention", Check::kCrossAttention, errors::kFlexCrossAttention},
    OwnWords{"hpc_ops", Check::kSpeculative, errors::kHpcOpsSpeculative},
    OwnWords{"flex_attention", Check::kSpeculative, errors::kFlexSpeculative},
    OwnWords{"trtllm_mha", Check::kTopk, errors::kTrtllmMhaTopk},
    OwnWords{"flashinfer", Check::kTopk, errors::kFlashinferMlaTopk},
    OwnWords{"flashmla", Check::kTopk, errors::kFlashMlaTopk},
    OwnWords{"aiter", Check::kTopk, errors::kAiterTopk},
    OwnWords{"hpc_ops", Check::kPageSize, errors::kHpcOpsPageSize},
    OwnWords{"tokenspeed_mla", Check::kPageSize, errors::kTokenspeedMlaPageSize},
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
    OwnWords{"trtllm_mha", Check::kHardware, errors::kTrtllmMhaPrefillSm},
    OwnWords{"hpc_ops", Check::kHardware, errors::kHpcOpsSm},
};

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
  Validation(const BackendInfo& info, const Needs& needs, const Hardware& hardware)
      : info_(info), needs_(needs), hardware_(hardware) {}

  std::vector<Refusal> run() {
    check_model();
    check_cross_attention();
    check_speculative();
    check_page_size();
    check_kv_type();
    check_head_dims();
    check_features();
    if (info_.caveat) {
      if (auto caveat = info_.caveat(needs_, hardware_)) {
        const bool stands = std::any_of(refusals_.begin(), refusals_.end(),
                                        [&](const Refusal& r) { return r.id == caveat->id; });
        if (!stands) refuse(caveat->id, "these flags on this model", caveat->offered);
      }
    }
    check_hardware();
    check_build();
    return std::move(refusals_);
  }

 private:
  void refuse(ErrorId id, std::string wanted, std::string offered) {
    std::vector<ErrorField> fields = {
        {"name", info_.name},
        {"architecture", needs_.architecture},
        {"algorithm", needs_.speculative_algorithm},
        {"topk", needs_.speculative_topk},
        {"page_size", needs_.page_size},
        {"kv_type", name_of(needs_.kv_type)},
        {"head_dim", needs_.head_dim},
        {"v_head_dim", needs_.v_head_dim},
        {"heads", needs_.heads},
        {"kv_heads", needs_.kv_heads},
        {"sm", hardware_.sm ? fmt::format("sm{}", *hardware_.sm) : std::string("no NVIDIA GPU")},
        {"machine", info_.machine},
        {"hardware", hardware_.description},
        {"offered", offered},
        {"param", "--attention-backend"},
    };
    std::string message = Error(id, fields).message();
    refusals_.push_back(
        {id, std::move(message), std::move(wanted), std::move(offered), std::move(fields)});
  }

  void refuse_own(Check check, ErrorId general, std::string wanted, std::string offered) {
    for (const OwnWords& words : kOwnWords) {
      if (words.backend == info_.name && words.check == check) general = words.id;
    }
    refuse(general, std::move(wanted), std::move(offered));
  }

  void check_model() {
    if (!info_.own_models.empty()) {
      const auto& list = info_.architectures;
      if (std::find(list.begin(), list.end(), needs_.architecture) == list.end()) {
        refuse(errors::kModelNotServed, needs_.architecture, std::string(info_.own_models));
      }
    }
    if (needs_.mla && !info_.mla) {
      refuse_own(Check::kMlaModel, errors::kNonMlaBackendOnly, "an MLA model", "MHA models");
    } else if (!needs_.mla && !info_.mha) {
      refuse_own(Check::kNonMlaModel, errors::kMlaBackendOnly, "an MHA model", "MLA models");
    }
  }

  void check_cross_attention() {
    if (!needs_.encoder_decoder) return;
    if (info_.cross_attention == Support::kNo) {
      refuse_own(Check::kCrossAttention, errors::kCrossAttentionUnsupported, "cross attention",
                 "self attention only");
    } else if (needs_.window && !info_.cross_with_window) {
      refuse(errors::kWindowWithCrossAttention, "a window and cross attention", "one of them");
    }
  }

  // The page size that would be used; 1 where neither flag nor backend asks for more.
  std::int64_t effective_page_size() const {
    if (needs_.page_size > 0) return needs_.page_size;
    const auto sizes = page_sizes();
    return sizes.empty() || contains(sizes, 1) ? 1 : sizes.front();
  }

  std::span<const std::int32_t> page_sizes() const {
    return needs_.mla && !info_.page_sizes_mla.empty() ? info_.page_sizes_mla : info_.page_sizes;
  }

  void check_speculative() {
    if (needs_.speculative_algorithm.empty()) return;
    const Speculative offer = needs_.mla ? info_.speculative_mla : info_.speculative;
    if (offer == Speculative::kNone) {
      const std::string& algorithm = needs_.speculative_algorithm;
      const bool eagle = algorithm.starts_with("EAGLE") || algorithm == "NEXTN";
      refuse_own(Check::kSpeculative,
                 eagle ? errors::kEagleUnsupported : errors::kSpeculativeUnsupported, algorithm,
                 "plain decoding only");
      return;
    }
    if (needs_.speculative_topk <= 1) return;
    const std::string wanted = fmt::format("topk {}", needs_.speculative_topk);
    if (offer == Speculative::kOneBranch) {
      refuse_own(Check::kTopk, errors::kTopkUnsupported, wanted, "topk 1");
    }
    if (effective_page_size() <= 1) return;
    if (!needs_.mla && info_.tree_page_one) {
      refuse(errors::kTopkPageSize, wanted, "page size 1");
    } else if (needs_.mla ? info_.tree_page_one_mla : needs_.window && info_.tree_page_one_window) {
      refuse(errors::kTreePageSize, wanted, "page size 1");
    }
  }

  void check_page_size() {
    const auto sizes = page_sizes();
    if (needs_.page_size == 0 || sizes.empty() || contains(sizes, needs_.page_size)) return;
    refuse_own(Check::kPageSize, errors::kPageSizeUnsupported,
               fmt::format("page size {}", needs_.page_size),
               join(sizes, [](std::int32_t size) { return size; }));
  }

  void check_kv_type() {
    const auto types =
        needs_.mla && !info_.kv_types_mla.empty() ? info_.kv_types_mla : info_.kv_types;
    if (needs_.kv_type == KvType::kAuto || types.empty()) return;
    if (std::find(types.begin(), types.end(), needs_.kv_type) != types.end()) return;
    refuse_own(Check::kKvType, errors::kKvTypeUnsupported, std::string(name_of(needs_.kv_type)),
               join(types, [](KvType type) { return name_of(type); }));
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
      refuse(errors::kSinksUnsupported, "attention sinks", "no sinks");
    }
    if (needs_.soft_cap && (plain || info_.soft_cap == Support::kNo)) {
      refuse_own(Check::kSoftCap, errors::kSoftCapUnsupported, "a logit soft cap", "no cap");
    }
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
    if (device_found()) return;
    refuse_own(Check::kHardware, errors::kHardwareMissing, hardware_.description,
               std::string(info_.machine));
  }

  void check_build() {
    std::vector<std::string_view> lacking;
    if (!info_.in_this_build) {
      lacking.push_back("kernels");
    } else {
      if (needs_.mla && !info_.mla_in_build) lacking.push_back("MLA kernels");
      if (needs_.encoder_decoder && !info_.cross_in_build) {
        lacking.push_back("cross-attention kernels");
      }
      if (!needs_.speculative_algorithm.empty() && !info_.speculative_in_build) {
        lacking.push_back("speculative decoding");
      }
    }
    if (lacking.empty()) return;
    const std::string text = join(lacking, [](std::string_view word) { return word; });
    refuse(errors::kBackendNotInBuild, text, text);
  }

  const BackendInfo& info_;
  const Needs& needs_;
  const Hardware& hardware_;
  std::vector<Refusal> refusals_;
};

}  // namespace

std::vector<Refusal> validate(const BackendInfo& info, const Needs& needs,
                              const Hardware& hardware) {
  return Validation(info, needs, hardware).run();
}

}  // namespace quern::attention

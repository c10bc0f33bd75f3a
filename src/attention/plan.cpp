#include "attention/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "attention/registry.h"
#include "base/errors/attention.h"

namespace quern::attention {
namespace {

// Decode backends that take an FP4 cache behind fa4's prefill (SGLang's lists).
constexpr std::string_view kBehindFa4Mla[] = {"cutlass_mla", "flashinfer", "trtllm_mla"};
constexpr std::string_view kBehindFa4Mha[] = {"triton", "torch_native", "flex_attention"};
// Full-attention backends beside gated delta net layers on Blackwell GPUs.
constexpr std::string_view kGdnSm100[] = {"triton", "trtllm_mha", "fa4"};
constexpr std::string_view kGdnSm120[] = {"triton", "trtllm_mha", "flashinfer"};

bool contains(std::span<const std::string_view> list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// One use of a backend: for which model, in which phase.
struct Use {
  const BackendInfo* info;
  const Needs* needs;
  Phase phase;
  bool draft;
};

class Planner {
 public:
  Planner(const Question& question, Plan plan)
      : question_(question), hardware_(question.hardware), plan_(std::move(plan)) {
    target_ = question.target;
    if (question.draft) draft_ = *question.draft;
    prefill_only_ = target_;
    // Where the decode half verifies, the prefill half never sees a draft.
    if (question.verify_in_decode) prefill_only_.speculative_algorithm.clear();
  }

  Plan run() {
    list_uses();
    intersect_pages();
    check_fp4_behind_fa4();
    for (const Use& use : uses_) {
      for (Refusal& refusal : validate(*use.info, *use.needs, hardware_, use.phase)) {
        refusal.draft = use.draft;
        if (!told_behind_fa4(refusal)) add(std::move(refusal));
      }
    }
    intersect_kv_types();
    check_gated_delta_net();
    std::stable_sort(plan_.refusals.begin(), plan_.refusals.end(),
                     [](const Refusal& a, const Refusal& b) {
                       return std::pair(a.check, a.draft) < std::pair(b.check, b.draft);
                     });
    return std::move(plan_);
  }

 private:
  void list_uses() {
    const auto use = [&](const Half& prefill, const Half& decode, const Needs& first,
                         const Needs& second, bool draft) {
      if (prefill.row == decode.row) {
        uses_.push_back({&decode.row->info, &second, Phase::kBoth, draft});
        return;
      }
      // The decode half first: it is the named one where its partner prefills.
      uses_.push_back({&decode.row->info, &second, Phase::kDecode, draft});
      uses_.push_back({&prefill.row->info, &first, Phase::kPrefill, draft});
    };
    use(plan_.prefill, plan_.decode, prefill_only_, target_, false);
    if (question_.draft) use(plan_.draft_prefill, plan_.draft_decode, draft_, draft_, true);
  }

  // Two halves of one backend say the same thing once.
  void add(Refusal refusal) {
    for (const Refusal& other : plan_.refusals) {
      if (other.id == refusal.id && other.message == refusal.message) return;
    }
    plan_.refusals.push_back(std::move(refusal));
  }

  // The page size that all halves serve, the decode half's best first. An explicit one is judged by
  // each half by itself.
  void intersect_pages() {
    if (target_.page_size > 0) {
      plan_.page_size = target_.page_size;
      return;
    }
    std::vector<std::int32_t> common;
    const Use* first = nullptr;
    for (const Use& use : uses_) {
      const auto sizes = page_sizes_of(*use.info, *use.needs, hardware_);
      if (sizes.empty()) continue;
      if (!first) {
        first = &use;
        common.assign(sizes.begin(), sizes.end());
        continue;
      }
      std::erase_if(common, [&](std::int32_t size) {
        return std::find(sizes.begin(), sizes.end(), size) == sizes.end();
      });
      if (common.empty()) {
        refuse_pages(use, *first);
        return;
      }
    }
    if (!first) return;
    plan_.page_size = common.front();
    for (Needs* needs : {&target_, &draft_, &prefill_only_}) needs->page_size = common.front();
  }

  void refuse_pages(const Use& use, const Use& other) {
    const auto sizes = page_sizes_of(*use.info, *use.needs, hardware_);
    const auto others = page_sizes_of(*other.info, *other.needs, hardware_);
    const std::string offered = fmt::format("{}", fmt::join(sizes, ", "));
    const std::string other_offered = fmt::format("{}", fmt::join(others, ", "));
    add(refusal_of(
        Check::kPageSize, errors::kPageSizeConflict, *use.info, target_, hardware_,
        fmt::format("one page size for {} and {}", use.info->name, other.info->name),
        offered + "; " + other_offered,
        {{"other", other.info->name}, {"pages", offered}, {"other_pages", other_offered}}));
  }

  void intersect_kv_types() {
    plan_.kv_type = target_.kv_type;
    if (plan_.kv_type != KvType::kAuto) return;
    const BackendInfo &prefill = plan_.prefill.row->info, &decode = plan_.decode.row->info;
    const auto wanted = kv_types_of(decode, target_), offered = kv_types_of(prefill, target_);
    for (const KvType type : wanted) {
      if (!offered.empty() && std::find(offered.begin(), offered.end(), type) == offered.end()) {
        continue;
      }
      plan_.kv_type = type;
      return;
    }
    if (wanted.empty()) {
      plan_.kv_type = offered.empty() ? KvType::kBF16 : offered.front();
      return;
    }
    std::string names;
    for (const KvType type : offered) {
      names += (names.empty() ? "" : ", ") + std::string(name_of(type));
    }
    add(refusal_of(Check::kKvType, errors::kKvTypeUnsupported, prefill, target_, hardware_,
                   std::string(name_of(wanted.front())), names,
                   {{"kv_type", name_of(wanted.front())}}));
  }

  // Behind fa4's prefill a narrow cache has rules of its own, told in place of the general one.
  bool told_behind_fa4(const Refusal& refusal) const {
    return plan_.prefill.row->info.fp4_prefill &&
           (refusal.id == errors::kKv4MlaBackend || refusal.id == errors::kKv4MhaBackend);
  }

  void check_fp4_behind_fa4() {
    const BackendInfo &prefill = plan_.prefill.row->info, &decode = plan_.decode.row->info;
    const bool cuda = hardware_.sm.has_value();
    if (!is_fp4(target_.kv_type) || !prefill.fp4_prefill || !cuda) return;
    const std::span<const std::string_view> list =
        target_.mla ? std::span<const std::string_view>(kBehindFa4Mla)
                    : std::span<const std::string_view>(kBehindFa4Mha);
    if (contains(list, decode.name)) return;
    const std::string names = fmt::format("{}", fmt::join(list, ", "));
    add(refusal_of(
        Check::kKvType, target_.mla ? errors::kKv4Fa4MlaDecode : errors::kKv4Fa4MhaDecode, decode,
        target_, hardware_, std::string(name_of(target_.kv_type)), names, {{"allowed", names}}));
  }

  void check_gated_delta_net() {
    if (!target_.hybrid_gdn) return;
    const BackendInfo &prefill = plan_.prefill.row->info, &decode = plan_.decode.row->info;
    const auto refuse = [&](ErrorId id, const std::string& offered) {
      add(refusal_of(Check::kModel, id, decode, target_, hardware_, "gated delta net layers",
                     offered,
                     {{"allowed", offered}, {"prefill", prefill.name}, {"decode", decode.name}}));
    };
    if (target_.mla) refuse(errors::kHybridGdnMla, "non-MLA models");
    if (hardware_.ascend && (prefill.name != "ascend" || decode.name != "ascend")) {
      refuse(errors::kHybridGdnNpu, "ascend");
    }
    if (!hardware_.sm || *hardware_.sm < 100) return;
    const bool cpu = prefill.device == Device::kAnyCpu && decode.device == Device::kAnyCpu;
    const std::span<const std::string_view> list =
        *hardware_.sm >= 120 ? std::span<const std::string_view>(kGdnSm120)
                             : std::span<const std::string_view>(kGdnSm100);
    if (cpu || (contains(list, prefill.name) && contains(list, decode.name))) return;
    refuse(errors::kHybridGdnBlackwell, fmt::format("{}", fmt::join(list, ", ")));
  }

  const Question& question_;
  const Hardware& hardware_;
  Plan plan_;
  Needs target_, draft_, prefill_only_;
  std::vector<Use> uses_;
};

}  // namespace

Plan make_plan(const Question& question, Half prefill, Half decode, Half draft) {
  Plan plan;
  plan.prefill = std::move(prefill);
  plan.decode = std::move(decode);
  if (question.draft && draft.row) {
    plan.draft_prefill = plan.draft_decode = std::move(draft);
  } else if (question.draft) {
    plan.draft_prefill = {plan.prefill.row,
                          "inherited by the draft model from " + plan.prefill.chosen_by};
    plan.draft_decode = {plan.decode.row,
                         "inherited by the draft model from " + plan.decode.chosen_by};
  }
  return Planner(question, std::move(plan)).run();
}

Plan plan_of(const Question& question, const Half& whole, Half draft) {
  const BackendInfo& info = whole.row->info;
  if (!question.target.mla || info.mla_prefill_partner.empty()) {
    return make_plan(question, whole, whole, std::move(draft));
  }
  const Half partner{&find_backend(info.mla_prefill_partner),
                     fmt::format("{}, which only decodes", info.name)};
  return make_plan(question, partner, whole, std::move(draft));
}

}  // namespace quern::attention

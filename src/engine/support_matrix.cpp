#include "engine/support_matrix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "attention/registry.h"
#include "attention/validate.h"

namespace quern::engine {
namespace {

using attention::BackendInfo;
using attention::Speculative;
using attention::Support;

std::string word(Support support) {
  switch (support) {
    case Support::kNo: return "no";
    case Support::kYes: return "yes";
    case Support::kUnknown: return "?";
  }
  return "?";
}

std::string word(Speculative speculative) {
  switch (speculative) {
    case Speculative::kNone: return "none";
    case Speculative::kOneBranch: return "one branch";
    case Speculative::kTree: return "tree";
    case Speculative::kUnknown: return "?";
  }
  return "?";
}

// One text where MHA and MLA agree or only one is served, else both.
std::string both(const BackendInfo& info, const std::string& mha, const std::string& mla) {
  if (!info.mla) return mha;
  if (!info.mha || mha == mla) return mla;
  return mha + "; MLA " + mla;
}

std::string page_list(std::span<const std::int32_t> sizes) {
  return sizes.empty() ? "any" : fmt::format("{}", fmt::join(sizes, ", "));
}

std::string type_list(std::span<const attention::KvType> types) {
  std::string names;
  for (const attention::KvType type : types) {
    names += (names.empty() ? "" : ", ") + std::string(attention::name_of(type));
  }
  return names.empty() ? "?" : names;
}

std::string speculation(const BackendInfo& info) {
  std::string mha = word(info.speculative), mla = word(info.speculative_mla);
  if (info.tree_page_one) mha += " at page size 1";
  if (info.tree_page_one_window) mha += " (with a window at page size 1)";
  if (info.tree_page_one_mla && info.speculative_mla == Speculative::kTree) {
    mla += " at page size 1";
  }
  return both(info, mha, mla);
}

std::string head_dims(const BackendInfo& info) {
  std::string mha = "any", mla = "any";
  if (!info.head_dims.empty()) {
    mha = fmt::format("{}", fmt::join(info.head_dims, ", "));
  } else if (info.max_head_dim > 0) {
    mha = fmt::format("≤ {}", info.max_head_dim);
  }
  if (info.head_dim_multiple > 1) mha += fmt::format(", multiples of {}", info.head_dim_multiple);
  if (info.equal_head_dims) mha += ", QK = V";
  if (!info.head_dims_mla.empty()) {
    mla.clear();
    for (const attention::HeadDims& dims : info.head_dims_mla) {
      mla += fmt::format("{}{}/{}", mla.empty() ? "" : ", ", dims.qk, dims.v);
    }
  }
  return both(info, mha, mla);
}

std::string feature(const BackendInfo& info, Support support) {
  return both(info, word(support), info.plain_mla ? "no" : word(support));
}

std::string build(const BackendInfo& info) {
  if (!info.in_this_build) return info.portable ? "simulated" : "no";
  std::vector<std::string_view> lacking;
  if (info.mla && !info.mla_in_build) lacking.push_back("MLA");
  if (info.cross_attention == Support::kYes && !info.cross_in_build) {
    lacking.push_back("cross attention");
  }
  if (info.speculative != Speculative::kNone && !info.speculative_in_build) {
    lacking.push_back("speculative decoding");
  }
  if (lacking.empty()) return "yes";
  return fmt::format("yes, but for {}", fmt::join(lacking, ", "));
}

std::string own(const BackendInfo& info) {
  std::string serves = info.mha && info.mla ? "MHA, MLA" : info.mha ? "MHA" : "MLA";
  if (info.mla && info.mla_decode_only)
    serves += info.mha ? " (MLA decode only)" : " (decode only)";
  if (!info.own_models.empty()) serves += fmt::format(" of its own models: {}", info.own_models);
  return serves;
}

// Of the machine alone: a model that asks for nothing but attention of the kind it serves.
std::string verdict(const BackendInfo& info, const attention::Hardware& hardware) {
  attention::Needs needs;
  needs.mla = !info.mha;
  for (const attention::Refusal& refusal : attention::validate(info, needs, hardware)) {
    if (refusal.check == attention::Check::kHardware)
      return "no: needs " + std::string(info.machine);
  }
  return attention::has_kernels(info, hardware) ? "yes" : "the machine fits, this build lacks it";
}

}  // namespace

std::vector<SupportRow> support_matrix(const std::string& hardware) {
  std::vector<SupportRow> rows;
  for (const attention::BackendRow* backend : attention::backends()) {
    const BackendInfo& info = backend->info;
    SupportRow row;
    row.name = info.name;
    row.serves = own(info);
    row.cross = word(info.cross_attention);
    if (info.cross_attention == Support::kYes && !info.cross_with_window) {
      row.cross += ", not with a window";
    }
    row.speculative = speculation(info);
    row.pages =
        both(info, page_list(info.page_sizes),
             page_list(info.page_sizes_mla.empty() ? info.page_sizes : info.page_sizes_mla));
    row.kv_types = both(info, type_list(info.kv_types),
                        type_list(info.kv_types_mla.empty() ? info.kv_types : info.kv_types_mla));
    row.head_dims = head_dims(info);
    row.window = feature(info, info.window);
    row.sinks = feature(info, info.sinks);
    row.soft_cap = feature(info, info.soft_cap);
    row.deterministic =
        both(info, info.deterministic ? "yes" : "no", info.deterministic_mla ? "yes" : "no");
    row.machine = info.machine;
    row.build = build(info);
    if (!hardware.empty()) row.here = verdict(info, attention::hardware_named(hardware));
    row.note = info.note;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace quern::engine

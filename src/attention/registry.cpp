#include "attention/registry.h"

#include <fmt/format.h>

#include <cctype>
#include <deque>
#include <mutex>

#include "attention/backends/cpu_flash.h"
#include "attention/backends/infos.h"
#include "attention/backends/intel_amx.h"
#include "attention/backends/known.h"
#include "attention/backends/torch_native.h"
#include "base/errors/attention.h"
#include "base/nearest.h"

namespace quern::attention {
namespace {

// Rows keep their addresses, since plans point to them.
struct Table {
  std::mutex mutex;
  std::deque<BackendRow> rows;
};

Table& table() {
  static Table* const table = [] {
    auto* made = new Table;
    for (const BackendInfo& info : known_gpu_backends()) made->rows.push_back({.info = info});
    made->rows.push_back({kCpuFlashInfo, make_cpu_flash, cpu_flash_layouts});
    made->rows.push_back({kIntelAmxInfo, make_intel_amx, intel_amx_layouts});
    made->rows.push_back({kTorchNativeInfo, make_torch_native, torch_native_layouts});
    return made;
  }();
  return *table;
}

struct Alias {
  std::string_view old_name, name;
};
constexpr Alias kAliases[] = {{"nsa", "dsa"}, {"compressed", "dsv4"}};

[[noreturn]] void refuse_registration(std::string_view name, std::string_view reason) {
  throw Error(errors::kBackendRegistration, {{"name", name}, {"reason", reason}});
}

}  // namespace

std::vector<const BackendRow*> backends() {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  std::vector<const BackendRow*> rows;
  for (const BackendRow& row : all.rows) rows.push_back(&row);
  return rows;
}

const BackendRow& find_backend(std::string_view name, std::string_view param, std::string* note) {
  std::string_view wanted = name;
  for (const Alias& alias : kAliases) {
    if (alias.old_name != name) continue;
    wanted = alias.name;
    if (note) *note = fmt::format("{} is the old name of {}", alias.old_name, alias.name);
  }
  std::vector<std::string> names;
  for (const BackendRow* row : backends()) {
    if (row->info.name == wanted) return *row;
    names.emplace_back(row->info.name);
  }
  std::string lower(name.substr(0, 100));
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::string near = nearest(lower, names);
  const std::string known = backend_names([](const BackendInfo&) { return true; });
  throw Error(errors::kInvalidAttentionBackend,
              {{"name", name},
               {"param", param},
               {"hint", (near.empty() ? "" : "did you mean " + near + "?\n") + "known: " + known}});
}

void register_backend(const BackendRow& row) {
  if (row.info.name.empty()) refuse_registration("(empty)", "it has no name");
  if (!row.create || !row.kv_layouts) {
    refuse_registration(row.info.name, "it lacks a factory or its page layouts");
  }
  if (!row.info.mha && !row.info.mla) {
    refuse_registration(row.info.name, "it serves neither MHA nor MLA models");
  }
  for (const Alias& alias : kAliases) {
    if (alias.old_name == row.info.name) refuse_registration(row.info.name, "the name is taken");
  }
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  for (const BackendRow& other : all.rows) {
    if (other.info.name == row.info.name) refuse_registration(row.info.name, "the name is taken");
  }
  all.rows.push_back(row);
  all.rows.back().info.in_this_build = true;
}

std::string backend_names(const std::function<bool(const BackendInfo&)>& wanted) {
  std::string names;
  for (const BackendRow* row : backends()) {
    if (!wanted(row->info)) continue;
    names += (names.empty() ? "" : ", ") + std::string(row->info.name);
  }
  return names;
}

}  // namespace quern::attention

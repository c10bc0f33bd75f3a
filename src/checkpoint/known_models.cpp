#include "checkpoint/known_models.h"

#include <algorithm>
#include <utility>

#include "base/nearest.h"

namespace quern::checkpoint {
namespace {

constexpr KnownModel kModels[] = {
#include "checkpoint/known_models.inc"
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return lower(c); });
  return result;
}

std::string short_name(std::string_view name) {
  return lower(name.substr(name.rfind('/') + 1));  // npos + 1 is 0
}

}  // namespace

std::vector<std::string> KnownModel::hub_names() const {
  std::vector<std::string> names;
  for (std::string_view rest = hub; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    names.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

const KnownModel* find_known_model(std::string_view name) {
  const std::string wanted = lower(name);
  if (wanted.empty()) return nullptr;
  const bool with_owner = wanted.find('/') != wanted.npos;
  for (const KnownModel& model : kModels) {
    if (lower(model.name) == wanted) return &model;
    for (const std::string& hub : model.hub_names()) {
      if ((with_owner ? lower(hub) : short_name(hub)) == wanted) return &model;
    }
  }
  return nullptr;
}

std::vector<std::string> known_model_names() {
  std::vector<std::string> names;
  for (const KnownModel& model : kModels) names.emplace_back(model.name);
  return names;
}

std::vector<std::string> nearest_known_models(std::string_view name, std::size_t count) {
  const std::string wanted = short_name(name);
  if (wanted.empty() || wanted.size() > 100) return {};
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const KnownModel& model : kModels) {
    const std::string known = lower(model.name);
    std::size_t distance = edit_distance(wanted, known);
    if (wanted.size() > 2 && known.starts_with(wanted)) distance = 1;
    if (distance <= std::max<std::size_t>(2, wanted.size() / 3))
      near.emplace_back(distance, model.name);
  }
  std::ranges::sort(near);
  std::vector<std::string> names;
  for (const auto& [distance, found] : near) {
    if (names.size() < count) names.push_back(found);
  }
  return names;
}

}  // namespace quern::checkpoint

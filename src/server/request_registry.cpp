#include "server/request_registry.h"

#include <utility>
#include <vector>

namespace quern::server {

RequestRegistry::Entry::Entry(RequestRegistry& registry, std::string id,
                              std::shared_ptr<Exchange> exchange)
    : registry_(registry) {
  const std::lock_guard lock(registry.mutex_);
  place_ = registry.exchanges_.emplace(std::move(id), std::move(exchange));
}

RequestRegistry::Entry::~Entry() {
  const std::lock_guard lock(registry_.mutex_);
  registry_.exchanges_.erase(place_);
}

size_t RequestRegistry::end(std::string_view prefix) {
  std::vector<std::shared_ptr<Exchange>> found;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = exchanges_.lower_bound(std::string(prefix));
         it != exchanges_.end() && it->first.starts_with(prefix); ++it) {
      found.push_back(it->second);
    }
  }
  for (const auto& exchange : found) exchange->end();
  return found.size();
}

}  // namespace quern::server

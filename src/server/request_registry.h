// The requests that are being answered, by the ids that /abort_request knows them by. Shared by the
// connections, which enter theirs, and the control routes. Any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/exchange.h"

namespace quern::server {

class RequestRegistry {
 public:
  // Holds an entry as long as it lives.
  class Entry {
   public:
    Entry(RequestRegistry& registry, std::string id, std::shared_ptr<Exchange> exchange);
    Entry(Entry&&) = delete;
    ~Entry();

   private:
    RequestRegistry& registry_;
    std::multimap<std::string, std::shared_ptr<Exchange>>::iterator place_;
  };

  // Ends every request whose id begins with `prefix`; the number of them.
  size_t end(std::string_view prefix);

 private:
  std::mutex mutex_;
  // Shared with the connections, whose requests they are.
  std::multimap<std::string, std::shared_ptr<Exchange>> exchanges_;
};

}  // namespace quern::server

// Memory that is taken piece by piece and given back at once: a template's syntax tree and
// constants live in one, all values of a rendering in another, so that values are plain pointers
// and cycles among them harm nobody. One thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace quern::text::jinja {

class Arena {
 public:
  // `full` is called where more than `limit` bytes would be taken; it must throw.
  Arena(std::size_t limit, std::function<void()> full) : limit_(limit), full_(std::move(full)) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void* take(std::size_t bytes, std::size_t alignment) {
    std::size_t begin = (used_ + alignment - 1) & ~(alignment - 1);
    if (begin + bytes > block_size_ || bytes > limit_) {
      grow(bytes);
      begin = 0;
    }
    used_ = begin + bytes;
    return blocks_.back().get() + begin;
  }

  template <typename T, typename... Arguments>
  T* make(Arguments&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (take(sizeof(T), alignof(T))) T{std::forward<Arguments>(arguments)...};
  }

  template <typename T>
  std::span<const T> copy(const std::vector<T>& items) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (items.empty()) return {};
    T* copied = static_cast<T*>(take(items.size() * sizeof(T), alignof(T)));
    std::uninitialized_copy(items.begin(), items.end(), copied);
    return {copied, items.size()};
  }

  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* copied = static_cast<char*>(take(text.size(), 1));
    std::memcpy(copied, text.data(), text.size());
    return {copied, text.size()};
  }

 private:
  static constexpr std::size_t kFirstBlock = 16 << 10, kLargestBlock = 1 << 20;

  void grow(std::size_t bytes) {
    if (bytes > limit_ - taken_) full_();
    const std::size_t usual = blocks_.empty() ? kFirstBlock : block_size_ * 2;
    std::size_t size = std::max(bytes, std::min(usual, kLargestBlock));
    size = std::min(size, limit_ - taken_);
    blocks_.emplace_back(new std::byte[size]);
    block_size_ = size;
    taken_ += size;
  }

  std::size_t limit_;
  std::function<void()> full_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::size_t block_size_ = 0, used_ = 0;  // of the last block
  std::size_t taken_ = 0;                  // of all blocks
};

}  // namespace quern::text::jinja

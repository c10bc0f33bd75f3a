// Memory for weights and scratch: zeroed, aligned to 2 MiB where it is large so that the system may
// use huge pages, with 4 KiB behind the end so that prefetching runs into mapped memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace quern::kernels {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Throws: kOutOfMemory.
  explicit AlignedBuffer(std::int64_t bytes);

  std::byte* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }

 private:
  friend class Arena;
  std::shared_ptr<std::byte> data_;  // shares its mapping with the others of an arena
  std::int64_t size_ = 0;
};

// Buffers end to end in common mappings: matrices smaller than a huge page are on huge pages too.
// A mapping lives as long as one of its buffers. Not thread-safe.
class Arena {
 public:
  // Aligned to 64 bytes. Throws: kOutOfMemory.
  AlignedBuffer take(std::int64_t bytes);

 private:
  AlignedBuffer chunk_;
  std::int64_t used_ = 0;
};

}  // namespace quern::kernels

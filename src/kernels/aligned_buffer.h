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
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  std::byte* data() const { return data_; }
  std::int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace quern::kernels

#include "kernels/aligned_buffer.h"

#include <sys/mman.h>

#include <utility>

#include "base/error.h"
#include "base/errors/base.h"

namespace quern::kernels {
namespace {

constexpr std::int64_t kHuge = std::int64_t{2} << 20;
constexpr std::int64_t kTail = 4096;

}  // namespace

AlignedBuffer::AlignedBuffer(std::int64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const std::int64_t align = bytes >= kHuge ? kHuge : 4096;
  mapping_bytes_ = static_cast<std::size_t>(bytes + kTail + align);
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw Error(errors::kOutOfMemory, {{"what", "a buffer"}, {"bytes", bytes}});
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::byte*>((address + align - 1) / align * align);
  if (align == kHuge) madvise(data_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (mapping_) munmap(mapping_, mapping_bytes_);
}

}  // namespace quern::kernels

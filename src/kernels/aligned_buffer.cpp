#include "kernels/aligned_buffer.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"
#include "base/errors/base.h"

namespace quern::kernels {
namespace {

constexpr std::int64_t kHuge = std::int64_t{2} << 20;
constexpr std::int64_t kTail = 4096;
// Of an arena. Memory that is never written costs address space only.
constexpr std::int64_t kChunk = std::int64_t{64} << 20;

}  // namespace

AlignedBuffer::AlignedBuffer(std::int64_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const std::int64_t align = bytes >= kHuge ? kHuge : 4096;
  const auto mapped = static_cast<std::size_t>(bytes + kTail + align);
  void* const mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw Error(errors::kOutOfMemory, {{"what", "a buffer"}, {"bytes", bytes}});
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  data_ = {reinterpret_cast<std::byte*>((address + align - 1) / align * align),
           [mapping, mapped](std::byte*) { munmap(mapping, mapped); }};
  if (align == kHuge) madvise(data(), static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
}

AlignedBuffer Arena::take(std::int64_t bytes) {
  constexpr std::int64_t kAlign = 64;
  if (used_ + bytes > chunk_.size()) {
    chunk_ = AlignedBuffer(std::max(bytes, kChunk));
    used_ = 0;
  }
  AlignedBuffer buffer;
  buffer.data_ = {chunk_.data_, chunk_.data() + used_};
  buffer.size_ = bytes;
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return buffer;
}

}  // namespace quern::kernels

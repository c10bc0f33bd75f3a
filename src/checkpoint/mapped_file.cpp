#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"

namespace quern::checkpoint {
namespace {

[[noreturn]] void unreadable(const std::string& path, std::string_view reason) {
  throw Error(errors::kCheckpointFileUnreadable, {{"file", path}, {"reason", reason}});
}

// An open regular file with its size.
struct OpenFile {
  explicit OpenFile(const std::string& path) {
    // Without O_NONBLOCK, opening a pipe waits for its writer.
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) unreadable(path, std::strerror(errno));
    struct stat facts {};
    std::string fault;
    if (::fstat(descriptor, &facts) != 0) {
      fault = std::strerror(errno);
    } else if (S_ISDIR(facts.st_mode)) {
      fault = "it is a folder";
    } else if (!S_ISREG(facts.st_mode)) {
      fault = "it is not a regular file";
    }
    if (!fault.empty()) {
      ::close(descriptor);
      unreadable(path, fault);
    }
    size = static_cast<std::size_t>(facts.st_size);
  }
  ~OpenFile() { ::close(descriptor); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor = -1;
  std::size_t size = 0;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const OpenFile file(path);
  if (file.size == 0) unreadable(path, "it is empty");
  void* data = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor, 0);
  if (data == MAP_FAILED) unreadable(path, std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
  size_ = file.size;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(const std::byte* data, std::int64_t size) const noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end =
      (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(size)) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string read_text_file(const std::string& path) {
  const OpenFile file(path);
  if (file.size > static_cast<std::size_t>(kMaxTextBytes)) {
    throw Error(errors::kCheckpointFileTooLarge,
                {{"file", path}, {"bytes", file.size}, {"limit", kMaxTextBytes}});
  }
  std::string text(file.size, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::read(file.descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) unreadable(path, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  text.resize(done);
  return text;
}

bool is_file(const std::string& path) noexcept {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

}  // namespace quern::checkpoint

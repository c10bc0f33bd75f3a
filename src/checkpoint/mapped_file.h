// Files as the readers of checkpoints see them: mapped for weights, whole in memory for the small
// ones. Both refuse what is not a regular file (a folder, a pipe) instead of blocking on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace quern::checkpoint {

// A file mapped read-only, as long as this object lives. Move-only; any thread.
class MappedFile {
 public:
  // Throws: kCheckpointFileUnreadable for a missing, empty or unreadable file or a folder.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Tells the system that the whole pages inside [data, data + size) are not needed again; they
  // are read from the file again if they are touched.
  void release(const std::byte* data, std::int64_t size) const noexcept;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The largest JSON or text file that is read into memory.
inline constexpr std::int64_t kMaxTextBytes = std::int64_t{64} << 20;

// The whole file, "" if it is empty.
// Throws: kCheckpointFileUnreadable, kCheckpointFileTooLarge above kMaxTextBytes.
std::string read_text_file(const std::string& path);

// Whether `path` leads to a regular file. Never throws.
bool is_file(const std::string& path) noexcept;

}  // namespace quern::checkpoint

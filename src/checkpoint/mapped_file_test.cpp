#include "checkpoint/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;

fs::path scratch() {
  const fs::path folder = fs::path(testing::TempDir()) / "quern_mapped_file";
  fs::create_directories(folder);
  return folder;
}

std::string reason(const std::string& path) {
  try {
    MappedFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kCheckpointFileUnreadable);
    EXPECT_EQ(error.field("file"), path);
    return std::string(error.field("reason"));
  }
  return "";
}

TEST(MappedFile, HoldsTheBytesUntilItGoes) {
  const std::string path = (scratch() / "bytes").string();
  std::ofstream(path) << "hello";
  MappedFile first(path);
  MappedFile second(std::move(first));
  first = MappedFile(path);
  ASSERT_EQ(second.bytes().size(), 5u);
  EXPECT_EQ(second.bytes()[4], std::byte{'o'});
  second.release(second.bytes().data(), 5);
  EXPECT_EQ(second.bytes()[0], std::byte{'h'});
  EXPECT_EQ(read_text_file(path), "hello");
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const fs::path folder = scratch();
  EXPECT_EQ(reason(folder.string()), "it is a folder");
  EXPECT_EQ(reason((folder / "nosuch").string()), "No such file or directory");
  std::ofstream((folder / "empty").string());
  EXPECT_EQ(reason((folder / "empty").string()), "it is empty");
  const std::string pipe = (folder / "pipe").string();
  ::mkfifo(pipe.c_str(), 0600);
  EXPECT_EQ(reason(pipe), "it is not a regular file");
  EXPECT_FALSE(is_file(pipe));
}

TEST(ReadTextFile, RefusesHugeFiles) {
  const std::string path = (scratch() / "huge").string();
  std::ofstream(path) << "x";
  fs::resize_file(path, static_cast<std::uintmax_t>(kMaxTextBytes) + 1);
  try {
    read_text_file(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kCheckpointFileTooLarge);
  }
  fs::remove(path);
}

}  // namespace
}  // namespace quern::checkpoint

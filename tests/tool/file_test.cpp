// Outputs that appear whole or not at all.
#include "file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "error.h"
#include "temporary.h"

namespace fa::tool {
namespace {

using Names = std::vector<std::string>;

std::span<const std::byte> bytes_of(const std::string &text) {
  return std::as_bytes(std::span(text));
}

std::string contents(const std::string &path) {
  const std::vector<std::byte> bytes = read_file(path);
  return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

void write(const std::string &path, const std::string &text) {
  OutputFile file(path);
  file.write(bytes_of(text));
  file.commit();
}

TEST(File, AppearsAtCommit) {
  const test::TemporaryFolder folder;
  {
    OutputFile file(folder / "a");
    file.write(bytes_of("first, longer"));
    file.write(bytes_of("second"));
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    file.commit();
  }
  EXPECT_EQ(contents(folder / "a"), "second");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(File, WithoutCommitNothingChanges) {
  const test::TemporaryFolder folder;
  write(folder / "a", "before");
  {
    OutputFile a(folder / "a"), b(folder / "b");
    a.write(bytes_of("after"));
    EXPECT_EQ(folder.names().size(), 3u);
  }
  EXPECT_EQ(contents(folder / "a"), "before");
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(File, HasTheModeOfAnyOtherFile) {
  const test::TemporaryFolder folder;
  const mode_t before = umask(027);
  write(folder / "a", "x");
  umask(before);
  struct stat status = {};
  ASSERT_EQ(stat((folder / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  chmod((folder / "a").c_str(), 0604);
  write(folder / "a", "y");
  stat((folder / "a").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0604u);
}

TEST(File, FollowsLinks) {
  const test::TemporaryFolder folder;
  write(folder / "a", "x");
  ASSERT_EQ(symlink("a", (folder / "link").c_str()), 0);
  write(folder / "link", "y");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(contents(folder / "a"), "y");
}

TEST(File, LeavesDevicesWhereTheyAre) {
  write("/dev/null", "x");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  OutputFile full("/dev/full");
  EXPECT_THROW(full.write(bytes_of("x")), Failure);
}

TEST(File, RefusesPlacesThatCannotBeWritten) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(OutputFile(folder / ""), BadInput);
  EXPECT_THROW(OutputFile(folder / "no/such/folder"), BadInput);
  EXPECT_THROW(read_file(folder / ""), BadInput);
  EXPECT_THROW(read_file(folder / "nothing"), BadInput);
}

TEST(File, ReadsWhatTellsNoSize) {
  EXPECT_FALSE(read_file("/proc/self/status").empty());
}

}  // namespace
}  // namespace fa::tool

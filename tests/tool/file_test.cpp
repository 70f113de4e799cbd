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
  const std::vector<std::byte> bytes = read_text_file(path);
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

/// A link to a file that is not there yet stays a link, and the file comes where it leads.
TEST(File, FollowsLinksToNothingYet) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  ASSERT_EQ(symlink("second", (folder / "first").c_str()), 0);
  ASSERT_EQ(symlink("elsewhere/a", (folder / "second").c_str()), 0);
  write(folder / "first", "x");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "first"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "second"));
  EXPECT_EQ(contents(folder / "elsewhere/a"), "x");
  EXPECT_EQ(folder.names(), (Names{"elsewhere", "first", "second"}));
}

TEST(File, RefusesLinksThatGoRound) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(symlink("b", (folder / "a").c_str()), 0);
  ASSERT_EQ(symlink("a", (folder / "b").c_str()), 0);
  EXPECT_THROW(OutputFile(folder / "a"), BadInput);
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
  EXPECT_THROW(read_text_file(folder / ""), BadInput);
  EXPECT_THROW(read_text_file(folder / "nothing"), BadInput);
}

TEST(File, ReadsWhatTellsNoSize) {
  EXPECT_FALSE(read_text_file("/proc/self/status").empty());
}

TEST(File, ReadsWhatIsNeeded) {
  EXPECT_THROW(read_text_file("/dev/zero"), BadInput);
  std::vector<size_t> asked;
  const std::vector<std::byte> bytes = read_file("/dev/zero", [&](std::span<const std::byte> beginning) {
    asked.push_back(beginning.size());
    return beginning.size() < 100000 ? beginning.size() + 100000 : 0;
  });
  EXPECT_GE(bytes.size(), 100000u);
  EXPECT_LT(bytes.size(), 1000000u);
  EXPECT_EQ(asked.front(), 0u);
}

}  // namespace
}  // namespace fa::tool

// An interrupted program leaves nothing half-written, neither an output nor its temporary file, and `fa bench` prints
// its measurements so far.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "arrays.h"
#include "program.h"
#include "temporary.h"

namespace {

using fa::tool::NpyType;
using test::save;

using Names = std::vector<std::string>;

class Interrupt : public testing::TestWithParam<int> {};

TEST_P(Interrupt, LeavesNoOutput) {
  const test::TemporaryFolder folder;
  const std::string q = save(folder / "q.npy", test::random_array(NpyType::f32, {1, 64, 2, 32}, 1));
  save(folder / "out.npy", std::string("the old contents"));
  test::Program program({"run", "--q", q, "--k", q, "--v", q, "-o", folder / "out.npy", "--lse-out", folder / "lse.npy",
                         "--repeat", "1000000"});
  // Both temporary files are there as soon as the work has begun.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (folder.names().size() < 4 && program.running() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_EQ(folder.names().size(), 4u) << "the work has not begun";
  kill(program.id(), GetParam());
  const test::Finished f = program.wait();
  EXPECT_EQ(f.signal, GetParam());
  EXPECT_EQ(folder.names(), (Names{"out.npy", "q.npy"}));
  const std::vector<std::byte> left = fa::tool::read_text_file(folder / "out.npy");
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(left.data()), left.size()), "the old contents");
}

INSTANTIATE_TEST_SUITE_P(Signals, Interrupt, testing::Values(SIGINT, SIGTERM, SIGHUP, SIGPIPE));

/// When the first rounds are over depends on the machine: the signal comes later until they are.
TEST(BenchInterrupt, PrintsWhatWasMeasured) {
  const test::TemporaryFolder folder;
  save(folder / "b.json", std::string("the old contents"));
  test::Finished f;
  for (int milliseconds = 200; milliseconds < 60000; milliseconds *= 2) {
    test::Program program({"bench", "--shape", "1,2,1,32,48,16", "--dtype", "f32", "--kernel", "cpu.generic",
                           "--rounds", "1000", "--time", "0.1", "--json", folder / "b.json", "--plot",
                           folder / "b.svg"});
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(program.id(), SIGINT);
    f = program.wait();
    if (f.signal == SIGINT && f.out.find("GFLOP/s") != f.out.npos) break;
  }
  EXPECT_EQ(f.signal, SIGINT);
  EXPECT_NE(f.out.find("f32, cpu.generic\n  1,2,1,32,48,16 "), f.out.npos) << f.out;
  EXPECT_NE(f.err.find("fa bench: interrupted in round "), f.err.npos) << f.err;
  EXPECT_NE(f.err.find(" of 1000; --json and --plot are not written\n"), f.err.npos) << f.err;
  EXPECT_EQ(folder.names(), Names{"b.json"});
  const std::vector<std::byte> left = fa::tool::read_text_file(folder / "b.json");
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(left.data()), left.size()), "the old contents");
}

}  // namespace

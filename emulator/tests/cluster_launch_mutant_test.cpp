// Faults in kernels that take over blocks of their grid. 0 is the clean twin.
#include "mutant.h"

namespace {

using emulated::expect_report;

/// The report on a kernel of kernels/cluster_launch.cu, which lists its faults.
std::string run(const char *kernel, int fault) {
  constexpr int begun = 511;
  return emulated::report_of(emulated::read_file(TEST_MUTANTS "/../kernels/cluster_launch.sm_100a.ptx"), kernel, {4, 3},
                             {64}, fault, begun);
}

TEST(TakenBlocks, CleanTwin) {
  EXPECT_EQ(run("blocks", 0), "");
}
TEST(TakenBlocks, ResponseReadTooEarly) {
  expect_report(run("blocks", 1), "nothing has waited for it|which was never written");
}
TEST(TakenBlocks, RequestAfterAFailedOne) {
  expect_report(run("blocks", 2), "by a block that has seen a request fail");
}
TEST(TakenBlocks, RequestOfAnotherThreadAfterAFailedOne) {
  expect_report(run("blocks", 6), "by a block that has seen a request fail");
}
TEST(TakenBlocks, ResponseMayStillBeRead) {
  expect_report(run("blocks", 3), "race): ");
}
TEST(TakenBlocks, TooFewBytesExpected) {
  expect_report(run("blocks", 4), "deadlock");
}
TEST(TakenBlocks, NobodyWaitsForTheLastResponse) {
  expect_report(run("blocks", 5), "nothing has waited for this asynchronous operation");
}

TEST(TakenClusters, CleanTwin) {
  EXPECT_EQ(run("clusters", 0), "");
}
TEST(TakenClusters, OneBlockDoesNotWait) {
  expect_report(run("clusters", 1), "nothing has waited for it|which was never written");
}
TEST(TakenClusters, ResponseOfTheOtherBlockMayStillBeRead) {
  expect_report(run("clusters", 2), "race): ");
}

}  // namespace

// Blocks and clusters that take over others of their grid: every tile is done once, by whatever block.
#include <gtest/gtest.h>

#include "client.h"
#include "reported.h"

namespace {

using emulated::Array;
using emulated::kernel;
using emulated::launch;
using emulated::Shape;

CUfunction compiled(const char *name) {
  emulated::start();
  return kernel(emulated::read_file(std::string(TEST_KERNELS "/cluster_launch.sm_100a.ptx")), name);
}

/// The number of blocks that ran.
int run(const char *name, Shape grid) {
  emulated::start();
  int tiles = static_cast<int>(grid.x * grid.y * grid.z);
  Array<int> done(std::vector<int>(static_cast<size_t>(tiles) * 32 + 1));
  EXPECT_EQ(launch(compiled(name), grid, {64}, 0, done.address, 0, tiles * 32), CUDA_SUCCESS);
  std::vector<int> counts = done.values();
  int begun = counts.back();
  counts.pop_back();
  EXPECT_EQ(counts, std::vector<int>(counts.size(), 2)) << name;
  return begun;
}

TEST(ClusterLaunch, EveryTileIsDoneOnce) {
  for (Shape grid : {Shape{1}, Shape{7}, Shape{5, 4}, Shape{3, 2, 4}}) run("blocks", grid);
  for (Shape grid : {Shape{2}, Shape{8}, Shape{6, 3}, Shape{4, 2, 3}}) run("clusters", grid);
}

TEST(ClusterLaunch, BlocksAreTakenOver) {
  constexpr int tiles = 400;
  EXPECT_LT(run("blocks", {tiles}), tiles / 2);
  EXPECT_LT(run("clusters", {tiles}), tiles / 2);
}

/// A kernel around a request; arguments: of it.
std::string program(const std::string &arguments, const std::string &rest) {
  return ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
         ".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>; .reg .b128 %q<2>;\n"
         ".shared .align 16 .b8 response[32]; .shared .align 8 .b64 barrier;\n"
         "ld.param.u64 %rd1, [out]; mbarrier.init.shared.b64 [barrier], 1;\n"
         "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes" +
         arguments + ";\n" + rest + "ret;\n}\n";
}

void expect_refused(const std::string &text, CUresult code, const char *said) {
  auto run = [&] {
    emulated::start();
    Array<int> out(std::vector<int>(32));
    return launch(kernel(text, "k"), {2}, {1}, 0, out.address);
  };
  EXPECT_EXIT(std::_Exit(run() == code ? 0 : 1), testing::ExitedWithCode(0), said) << text;
}

TEST(ClusterLaunch, ThatCannotBe) {
  expect_refused(program(".shared::cta.b128 [response+8], [barrier]", ""), CUDA_ERROR_MISALIGNED_ADDRESS,
                 "aligned to 16 bytes");
  expect_refused(program(".b128 [%rd1], [barrier]", ""), CUDA_ERROR_ILLEGAL_ADDRESS,
                 "the response must be in the block's own shared memory");
  std::string early =
      "ld.shared.b128 %q1, [response]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;\n";
  expect_refused(program(".shared::cta.b128 [response], [barrier]", early), CUDA_ERROR_ILLEGAL_INSTRUCTION,
                 "not a response from clusterlaunchcontrol.try_cancel");
}

}  // namespace

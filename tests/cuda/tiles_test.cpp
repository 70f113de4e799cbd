// Grids, shared memory and tensor memory of tiles, from inside.
#include "forward/tcgen05/tiles.h"

#include <gtest/gtest.h>

#include "cuda/launch.h"
#include "cuda/module.h"
#include "forward_calls.h"

namespace fa::cuda {
namespace {

using kernels::Entry;

/// A grid has a block a work; a persistent one as many as the device holds; one of clusters is whole.
TEST(Tiles, GridsFollowTheTile) {
  const Device device = device_of(10);
  kernels::TileConfig tile = {};
  EXPECT_EQ(grid_of(tile, 25, device), 25);
  tile.cluster = 2;
  EXPECT_EQ(grid_of(tile, 25, device), 26);
  tile.persistent = true;
  EXPECT_EQ(grid_of(tile, 25, device), 10);
  tile.min_blocks_per_sm = 2;
  EXPECT_EQ(grid_of(tile, 25, device), 20);
  EXPECT_EQ(grid_of(tile, 3, device), 4);
}

/// A build has one of them, whose tiles are checked as it is compiled; here are those of the others.
TEST(Tiles, EveryPresetOfTensorMemoryFits) {
  using namespace kernels::tcgen05;
  using kernels::Preset;
  for (const Preset preset : {Preset::standard, Preset::little, Preset::mufu, Preset::tenth, Preset::fifth})
    for (const int dim : {64, 96, 128, 192, 256})
      for (const Entry entry : {Entry::plain, Entry::narrow}) {
        if (entry == Entry::narrow && !has_narrow(dim)) continue;
        const Shape s = shape_of(preset, 100, dim, entry);
        const int dim_v = columns_of_values(dim, entry);
        EXPECT_LE(shared_bytes(s, dim, dim_v), 227 << 10) << int(preset) << " " << dim;
        EXPECT_LE(2 * s.keys + s.queries * dim_v, tensor_columns) << int(preset) << " " << dim;
        EXPECT_EQ(s.keys % 32, 0) << int(preset) << " " << dim;  // columns that a warp reads at a time
        EXPECT_LE(128 * (s.softmax_registers * s.queries + s.correction_registers + s.other_registers), 64 << 10);
      }
}

/// On an A100, of 164 KB: a kilobyte of each block is the system's.
TEST(Carveout, IsAskedForWhereBlocksFitOnlyExactly) {
  const Device device = device_of(108);
  const auto asked = [&](int kilobytes, int blocks = 1) {
    kernels::TileConfig tile = {};
    tile.shared_bytes = kilobytes << 10;
    tile.min_blocks_per_sm = blocks;
    return carveout_of(tile, device);
  };
  EXPECT_EQ(asked(81), 100);
  EXPECT_EQ(asked(82), 0) << "only one block fits";
  EXPECT_EQ(asked(71), 100);
  EXPECT_EQ(asked(70), 0) << "there is room left";
  EXPECT_EQ(asked(53), 0);
  EXPECT_EQ(asked(53, 3), 100);
  EXPECT_EQ(asked(160), 0);
  EXPECT_EQ(asked(0), 0);
}

}  // namespace
}  // namespace fa::cuda

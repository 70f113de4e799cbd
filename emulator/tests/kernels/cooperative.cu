// Groups of threads as cooperative_groups has them, up to the whole grid: every block adds the numbers that all blocks wrote before
// the grid met, again and again. The PTX is made as README.md of the emulator says.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

/// cells: one a block, twice; sums: one a block. rounds times: each block writes its cell, the grid meets, each block
/// adds up all cells.
extern "C" __global__ void cooperative(unsigned *cells, unsigned *sums, unsigned rounds) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  __shared__ unsigned parts[32];
  unsigned total = 0;
  for (unsigned round = 0; round < rounds; round++) {
    unsigned *row = cells + round % 2 * gridDim.x;
    if (block.thread_rank() == 0) row[blockIdx.x] = round * 1000 + blockIdx.x;
    grid.sync();
    unsigned own = 0;
    for (unsigned i = block.thread_rank(); i < gridDim.x; i += block.size()) own += row[i];
    unsigned of_warp = cg::reduce(warp, own, cg::plus<unsigned>());
    if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = of_warp;
    block.sync();
    if (block.thread_rank() == 0)
      for (unsigned w = 0; w < warp.meta_group_size(); w++) total += parts[w];
    block.sync();
  }
  if (block.thread_rank() == 0) sums[blockIdx.x] = total;
}

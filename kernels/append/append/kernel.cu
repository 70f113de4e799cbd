// New keys and values into a cache, and queries rotated: a thread an item of a row, whose token it finds by itself. A
// block has rows of one tensor.
#include "append/append/items.cuh"
#include "common/build.cuh"

extern "C" __global__ void __launch_bounds__(fa::kernels::append::threads)
    fa_combine(const __grid_constant__ fa::kernels::AppendParams p) {
  using namespace fa::kernels::append;
  write_items(p, row_tile(p));
}

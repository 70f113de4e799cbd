// The tiles of FA_TILE_PRESET's table, a line for each family, head dimension and entry point, for tune.py to compare.
// Tables that say the same make the same kernel.
#include <cstdio>
#include <cstdlib>

#include "forward/mma/tiles.h"
#include "forward/tcgen05/tiles.h"
#include "forward/wgmma/tiles.h"

using namespace fa::kernels;

namespace {

template <class... Numbers>
void line(const char *family, int dim, Entry entry, Numbers... numbers) {
  std::printf("%s %d %s", family, dim, name_of(entry));
  (std::printf(" %d", static_cast<int>(numbers)), ...);
  std::printf("\n");
}

}  // namespace

int main() {
  for (const int dim : {64, 96, 128, 192, 256}) {
    for (const Entry entry : {Entry::plain, Entry::narrow}) {
      if (entry == Entry::narrow && dim != 192) continue;
      const wgmma::Shape w = wgmma::shape(dim, entry);
      line("wgmma", dim, entry, w.consumers, w.keys, w.stages, w.producer_registers, w.consumer_registers, w.pingpong);
      const auto [queries, keys_of_tile, places, softmax, correction, others, ex2_emu_freq] =
          tcgen05::shape(FA_SM, dim, entry);
      line("tcgen05", dim, entry, queries, keys_of_tile, places, softmax, correction, others, ex2_emu_freq);
    }
    const auto [row_blocks, warps, keys, stages, q_in_registers, min_blocks_per_sm, split] =
        mma::shape(arch_of(FA_SM), dim, Entry::plain);
    line("mma", dim, Entry::plain, row_blocks, warps, keys, stages, q_in_registers, min_blocks_per_sm, split);
  }
  return 0;
}

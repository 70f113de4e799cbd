// How the engine splits a decode, by its own rule: reads lines of "SM, head dimension, multiprocessors, bytes of memory
// a clock to each, tiles, keys" and prints blocks of threads that work at once, splits, and blocks of keys of a split.
// Before that: where a kernel's parameters have the queries of a sequence.
#include "cuda/splits.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>

#include "forward/mma/tiles.h"

using namespace fa;
using kernels::Entry;

int main() {
  std::printf("%zu\n", offsetof(kernels::Params, rows_q));
  int sm = 0, dim = 0, sms = 0;
  double rate = 0;
  long tiles = 0, keys = 0;
  while (std::scanf("%d %d %d %lf %ld %ld", &sm, &dim, &sms, &rate, &tiles, &keys) == 6) {
    const kernels::Arch &arch = *std::find_if(std::begin(kernels::archs), std::end(kernels::archs),
                                              [=](const kernels::Arch &a) { return a.number == sm; });
    cuda::Device device = {};
    device.sm_count = sms;
    device.shared_per_sm = arch.shared_bytes + 1024;
    device.threads_per_sm = 2048;
    device.memory_rate = rate;
    const kernels::TileConfig tile = kernels::mma::tile(arch, dim, Entry::decode);
    const cuda::SplitProblem work = {Entry::decode, tile, tiles, (keys + tile.keys - 1) / tile.keys};
    const long splits = cuda::num_splits_heuristic(work, device);
    std::printf("%ld %ld %ld\n", static_cast<long>(cuda::max_active_blocks(Entry::decode, tile, device)), splits,
                static_cast<long>(cuda::blocks_of_split(work, splits)));
  }
}

// The append kernel's blocks: as many rows each as make up an item a thread.
#pragma once

#include "common/append_params.h"
#include "common/images.h"

namespace fa::kernels::append {

constexpr int threads = 128;

/// Rows of a block, of rows of this many items.
constexpr int tile_rows(int items) {
  return items < threads ? threads / items : 1;
}

/// Entry::combine is its only entry point, which writes results as that of other families does.
constexpr TileConfig tile(const Arch &, int, Entry entry) {
  if (entry != Entry::combine) return {};
  return {1, 0, threads, 0};
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
inline constexpr Family family = {
    tile,
    [](const Attention &) { return f32; },
    [](const Attention &) -> const char * { return nullptr; },
    [](Entry, const Params &) -> const char * { return nullptr; },
    true,
};
#endif

}  // namespace fa::kernels::append

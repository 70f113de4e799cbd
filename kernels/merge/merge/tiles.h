// The merge kernel's blocks: some rows each, of which neighbouring threads have one.
#pragma once

#include "common/images.h"
#include "common/merge_params.h"

namespace fa::kernels::merge {

constexpr int threads = 128;

/// The threads that share a row are 1 << this: one for four columns, and a warp at most.
constexpr int log2_threads_of_row(int head_dim_v) {
  return (head_dim_v > 4) + (head_dim_v > 8) + (head_dim_v > 16) + (head_dim_v > 32) + (head_dim_v > 64);
}

/// Rows of a block.
constexpr int rows(int head_dim_v) {
  return threads >> log2_threads_of_row(head_dim_v);
}

constexpr TileConfig tile(const Arch &, int, Entry entry) {
  if (entry != Entry::combine) return {};
  return {rows(1), 0, threads, 0};
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

}  // namespace fa::kernels::merge

// The small kernels of a backward pass: row statistics, the sinks' gradients, which follow from
// that alone, and the last of dq where blocks of keys sum it.
#pragma once

#include "common/images.h"

namespace fa::kernels::delta {

constexpr int threads = 256;

/// Entry::dsinks has a block for each element of dsinks.
constexpr TileConfig tile(const Arch &, int, Entry entry) {
  if (entry != Entry::delta && entry != Entry::dsinks && entry != Entry::dq_postprocess) return {};
  return {entry == Entry::dsinks ? 1 : stats_block, 0, threads, 0};
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
inline constexpr Family family = {
    tile,
    [](const Attention &) { return f32; },
    [](const Attention &) { return "it begins the backward passes of other families"; },
    [](Entry, const Params &) -> const char * { return nullptr; },
    false,
    [](Entry, const BackwardParams &) -> const char * { return nullptr; },
};
#endif

}  // namespace fa::kernels::delta

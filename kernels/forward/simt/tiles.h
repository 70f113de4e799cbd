// The tiles of the scalar kernels: f32 in shared memory, whatever the tensors' types are.
#pragma once

#include "common/images.h"

namespace fa::kernels::simt {

constexpr int threads = 128;

/// Neighbouring lanes that share a row.
constexpr int lanes = 8;

constexpr int rows(int dim) {
  return dim <= 128 ? 64 : dim <= 256 ? 32 : 16;
}

constexpr int keys(int dim) {
  return dim <= 128 ? 32 : dim <= 256 ? 16 : 8;
}

/// Queries, then keys or values, then weights; rows are padded by one float against bank conflicts.
constexpr int shared_bytes(int dim) {
  return int(sizeof(float)) * ((rows(dim) + keys(dim)) * (dim + 1) + rows(dim) * (keys(dim) + 1));
}

constexpr TileConfig tile(const Arch &, int dim, Entry entry) {
  if (entry != Entry::split) return {};
  return {rows(dim), keys(dim), threads, shared_bytes(dim)};
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// Supports every attention.
inline constexpr Family family = {
    tile,
    [](const Attention &) { return f32; },
    [](const Attention &) -> const char * { return nullptr; },
    [](Entry, const Params &) -> const char * { return nullptr; },
    true,
    nullptr,
    true,
};
#endif

}  // namespace fa::kernels::simt

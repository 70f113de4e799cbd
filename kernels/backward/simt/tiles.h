// The tiles of the scalar kernels of the backward pass: f32 in shared memory, whatever the tensors' types are. One
// image has every head dimension: rows pass through shared memory in parts, and a block sums a part of the columns.
#pragma once

#include "common/images.h"

namespace fa::kernels::backward_simt {

constexpr int threads = 128;

/// Neighbouring lanes that share a row.
constexpr int lanes = 8;

/// The size of a tile of scores.
constexpr int rows = 32, keys = 32;

/// Elements of a row in shared memory at a time, and the columns of dq, dk or dv that a block sums: two such parts.
/// Where head dimensions are larger, several blocks compute the same scores: the grid's second dimension.
constexpr int part = 64, columns = 2 * part;

/// Parts of queries and keys, then weights and gradients of scores; rows are padded by one float against bank
/// conflicts.
constexpr int shared_bytes = int(sizeof(float)) * ((rows + keys) * (part + 1) + 2 * rows * (keys + 1));

constexpr TileConfig tile(const Arch &, int, Entry entry) {
  if (entry != Entry::dkv && entry != Entry::dq && entry != Entry::dbias) return {};
  TileConfig tile = {rows, keys, threads, shared_bytes};
  if (entry != Entry::dbias) tile.columns = columns;
  return tile;
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// Supports every attention.
inline constexpr Family family = {
    tile,
    [](const Attention &) { return f32; },
    [](const Attention &) -> const char * { return nullptr; },
    [](Entry, const Params &) -> const char * { return nullptr; },
    false,
    [](Entry, const BackwardParams &) -> const char * { return nullptr; },
};
#endif

}  // namespace fa::kernels::backward_simt

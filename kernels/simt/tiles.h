// The tiles of the scalar kernels: f32 in shared memory, whatever the tensors' types are.
#pragma once

#include "common/images.h"

namespace fa::kernels::simt {

constexpr int threads = 128;

/// Elements of a key or value that are in shared memory at a time.
constexpr int slice = 32;

constexpr int rows(int dim) {
  return dim <= 128 ? 64 : dim <= 256 ? 32 : 16;
}

constexpr int keys = 32;

/// Queries whole, a slice of keys or values, and scores; rows are padded by one float against bank conflicts.
constexpr int shared_bytes(int dim) {
  return int(sizeof(float)) * (rows(dim) * (dim + 1) + keys * (slice + 1) + rows(dim) * (keys + 1));
}

constexpr Tile tile(int, int dim, Entry) {
  return {rows(dim), keys, threads, shared_bytes(dim)};
}

static_assert(shared_bytes(64) <= shared_limit(75) && shared_bytes(128) <= shared_limit(75));
static_assert(shared_bytes(256) <= shared_limit(75) && shared_bytes(576) <= shared_limit(75));

}  // namespace fa::kernels::simt

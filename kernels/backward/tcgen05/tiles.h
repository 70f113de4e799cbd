// The tiles of the backward kernels for tensor memory (Blackwell's data-centre GPUs), for every head dimension; and the
// calls that they support.
#pragma once

#include "common/box_gradient_rules.h"

namespace fa::kernels::backward_tcgen05 {

/// The keys of a block, and the queries of a step: rows of a product, and lanes of tensor memory.
constexpr int keys = 128, columns = 128;

/// The stages of dO; Q has two.
constexpr int dout_stages_of(int dim) {
  return dim <= 96 ? 2 : 1;
}
constexpr int q_stages = 2;

/// The warpgroups: one that brings dQ to shared memory, two that weigh scores, each half of a step's queries, one of
/// single warps.
constexpr int threads = 512;

/// Registers of a thread: 64 K in all.
struct Registers {
  int reduce, scores, others;
};
constexpr Registers registers_of(int dim) {
  return dim <= 64 ? Registers{120, 152, 88} : Registers{168, 136, 72};
}

/// Of an SM's tensor memory all: S and P, dP and dS, dV, dK, dQ.
constexpr int tensor_columns = 512;

/// A chunk of dQ that is added at once (collective/dq_chunk.cuh); each of four warps has room for two.
constexpr int bytes_of_chunk = 16 * 64 * 4, dq_slots = 2;

/// Keys and values, the stages of Q and dO, dS, chunks of dQ; then the state.
constexpr int shared_bytes(int dim) {
  const int tiles = (2 * keys + (q_stages + dout_stages_of(dim)) * columns) * dim * 2 + keys * columns * 2;
  return tiles + 4 * dq_slots * bytes_of_chunk + 3 * 1024;
}

constexpr TileConfig tile(const Arch &, int dim, Entry entry) {
  if (entry != Entry::bwd_fused) return {};
  return {.rows = columns,
          .keys = keys,
          .threads = threads,
          .shared_bytes = shared_bytes(dim),
          .stages = q_stages,
          .tensor_columns = tensor_columns,
          .box_queries = columns,
          .box_keys = keys,
          .box_out = columns,
          .box_columns = dim % 64 == 0 ? 64 : 32};
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// bf16 up to head dimension 128, in one loop.
inline constexpr Family family = {
    tile,
    [](const Attention &a) { return Dtype(a.q_dtype); },
    unsupported_gradient_types_reason,
    [](Entry, const Params &) -> const char * { return "it computes gradients"; },
    false,
    unsupported_gradients_reason,
};
#endif

}  // namespace fa::kernels::backward_tcgen05

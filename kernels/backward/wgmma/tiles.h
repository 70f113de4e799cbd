// The tiles of the backward kernels for warpgroups (Hopper), for every head dimension; and the calls that they support.
#pragma once

#include "common/box_gradient_rules.h"

namespace fa::kernels::backward_wgmma {

/// The configuration of a block: a producer warpgroup, and two consumer warpgroups with 64 keys each.
struct Shape {
  int columns;  // queries of a step
  int stages;   // of the pipeline of queries
};

constexpr Shape shape_of(int dim) {
  return dim <= 64 ? Shape{128, 2} : Shape{64, 2};
}

constexpr int keys_of_warpgroup = 64, consumers = 2, keys = keys_of_warpgroup * consumers;
constexpr int threads = 128 * (1 + consumers);

/// Of a thread: 64 K in all.
constexpr int producer_registers = 24, consumer_registers = 240;

/// Keys and values, the stages of Q and dO, two tiles of dS, and one of dQ; then the state, which has of each query the
/// statistics and factors of each stage, and its keys by either warpgroup, and of each key its queries.
constexpr int shared_bytes(const Shape &s, int dim) {
  const int tiles = (2 * keys + s.stages * 2 * s.columns) * dim * 2 + 2 * keys * s.columns * 2 + s.columns * dim * 4;
  return tiles + s.columns * (12 * s.stages + 4 * consumers) + 8 * keys + 8 * 128 * consumers + 1024;
}

constexpr TileConfig tile(const Arch &, int dim, Entry entry) {
  if (entry != Entry::bwd_fused) return {};
  const Shape s = shape_of(dim);
  return {.rows = s.columns,
          .keys = keys,
          .threads = threads,
          .shared_bytes = shared_bytes(s, dim),
          .stages = s.stages,
          .box_queries = s.columns,
          .box_keys = keys,
          .box_out = s.columns,
          .box_columns = dim % 64 == 0 ? 64 : 32};
}

/// Scores of a step of 128 queries, under a softcap, do not fit into registers; nor do both P and dS before they are
/// rounded, which factors need. Factors do not fit at steps of 128 queries either.
constexpr bool has_softcap(int dim, int32_t dtype) {
  return shape_of(dim).columns <= 64 && !scales_gradients(dtype);
}

inline const char *unsupported_reason(Entry entry, const BackwardParams &p) {
  const int dim = p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v;
  if (scales_gradients(p.q_dtype) && dim <= 64) return "f16 at head dimensions up to 64";
  if (p.softcap > 0 && !has_softcap(dim, p.q_dtype))
    return scales_gradients(p.q_dtype) ? "a softcap in f16" : "a softcap at head dimensions up to 64";
  return unsupported_gradients_reason(entry, p);
}

constexpr const char *unsupported_types_reason(const Attention &a) {
  if (!is_16_bit(a.q_dtype) || a.q_dtype != a.kv_dtype) return "q, k and v are not of one 16-bit type";
  return nullptr;
}

#ifndef __CUDACC_RTC__  // NVRTC would put it on the device
/// bf16 up to head dimension 128 and f16 from 65 to 128, in one loop.
inline constexpr Family family = {
    tile,
    [](const Attention &a) { return Dtype(a.q_dtype); },
    unsupported_types_reason,
    [](Entry, const Params &) -> const char * { return "it computes gradients"; },
    false,
    unsupported_reason,
};
#endif

}  // namespace fa::kernels::backward_wgmma

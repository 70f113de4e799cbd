// A block that owns keys and streams queries: the state of its work, which one thread finds and all roles share.
#pragma once

#include "collective/query_stream.cuh"

namespace fa::kernels {

struct KeyBlock {
  Sequence sequence;
  KeyWorkTile work;
  Interval full;    // the queries that attend all keys
  Interval tiles;   // of queries of each head
  Interval before;  // tiles of queries that the block before adds to
  int group;        // heads of queries that have the keys
  int64_t row;      // of row 0 of the group's first head, in row_stats and in the sums of dq
};

/// B: the tiles. Rows of keys that do not exist must weigh nothing in dq: their steps are masked ones.
template <class B>
__device__ inline KeyBlock key_block(const BackwardParams &p, const Sequence &s, const KeyWorkTile &w) {
  const int end = min(w.first + B::rows, s.keys), group = p.heads_q / p.heads_kv;
  return {.sequence = s,
          .work = w,
          .full = end < w.first + B::rows ? Interval{0, 0} : full_query_range(p, s, w.first, end),
          .tiles = tiles_of<B>(attending(p, s, w.first, end)),
          .before = w.first == 0 ? Interval{0, 0} : tiles_of<B>(attending(p, s, max(w.first - B::rows, 0), w.first)),
          .group = group,
          .row = first_term(p, s, w.kv_head * group)};
}

}  // namespace fa::kernels

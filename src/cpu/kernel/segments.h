// Which keys of a block some query attends: causal masks and windows leave out corners of it, a few vectors of queries
// and a few keys at a time.
#pragma once

#include "cpu/kernel/products.h"
#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Keys after which the set of attending vectors of queries is determined again within a block. Even: pairs do not
/// straddle it, nor do tiles of pairs.
constexpr int segment_keys = has_tiles ? 32 : 16;

/// Keys begin .. end - 1 of a block, attended by some lane of vectors first .. last - 1.
struct Segment {
  int begin, end;
  int first, last;
};

/// Divides a block of n keys from key on into segments; returns their number. Some lane of vector v attends
/// [low_of[v], high_of[v]).
inline int find_segments(int vectors, const int32_t *low_of, const int32_t *high_of, int64_t key, int n,
                         Segment *segments) {
  int count = 0;
  for (int begin = 0; begin < n; begin += segment_keys) {
    const int end = smaller(n, begin + segment_keys);
    int first = vectors, last = 0;
    for (int v = 0; v < vectors; v++)
      if (low_of[v] < key + end && high_of[v] > key + begin) {
        first = smaller(first, v);
        last = v + 1;
      }
    if (first >= last) continue;
    Segment *before = count > 0 ? &segments[count - 1] : nullptr;
    if (before != nullptr && before->end == begin && before->first == first && before->last == last) {
      before->end = end;
    } else {
      segments[count++] = {begin, end, first, last};
    }
  }
  return count;
}

}  // namespace
}  // namespace fa::cpu::FA_ISA

// A small valid call with its memory, for tests that change one field of it.
#pragma once

#include <fa.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "words.h"

namespace api_test {

/// B = 2, Sq = 3, Sk = 4, Hq = 4, Hkv = 2, D = 8, all f32, contiguous; nothing optional. Arrays for every optional
/// field are ready, with contents that suit the shapes.
struct Call {
  static constexpr int64_t b = 2, sq = 3, sk = 4, hq = 4, hkv = 2, d = 8;

  fa_desc desc;
  fa_forward_args args;
  alignas(256) float q[b * sq * hq * d], k[b * sk * hkv * d], v[b * sk * hkv * d], out[b * sq * hq * d];
  float scales[b * sk * hkv * d], rope[b * sk * hkv * d];
  float lse[b * hq * sq], bias[b * hq * sq * sk], slopes[b * hq], sinks[b * hq];
  unsigned char mask[b * hq * sq * sk];
  int32_t table[b * 2] = {0, 1, 1, 0};
  int32_t cu_q[b + 1] = {0, 1, 3}, cu_k[b + 1] = {0, 2, 4};
  int32_t tree[b * hq * sq] = {1, 3, 5}, depths[b * sq] = {0, 1, 1, 0, 1, 1};
  int32_t used_q[b] = {3, 2}, used_k[b] = {4, 3}, leftpad[b] = {0, 1}, batch_idx[b] = {1, 0}, offset[b] = {0, 1};
  alignas(256) char workspace[1 << 18];

  Call();

  fa_op *create();
  /// Creates an op, runs the call on it and destroys it; the first status that is no FA_OK.
  fa_status run();

  void pack_q();                  // two sequences in one batch row of 3 rows
  void pack_k();                  // the same for k and v, 4 rows
  void page();                    // 2 pages of 4 rows, two to a sequence
  void quantise(fa_dtype dtype);  // k and v, with a scale a head
  void divide();                  // keys, of whose elements k_rope has the last four
  void add_lse();
  void add_tree();  // one of all sequences and heads, and depths of each sequence
  void add_bias();
  void add_mask();
  void add_slopes();
  void add_sinks();
};

}  // namespace api_test

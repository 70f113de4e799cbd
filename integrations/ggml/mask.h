// Masks of ggml are f16 addends. Most are causal, windowed or cut off at the used part of a cache: numbers say that in
// libfa, and whole tiles of keys are then left out without a look at the mask.
#pragma once
#include <cstdint>
#include <vector>

namespace fa_ggml {

// One plane a sequence, (sequences, rows, keys) of binary16, of which the first `queries` rows are used.
struct Mask {
  const uint16_t *data;
  int64_t keys;
  int64_t queries;
  int64_t plane;  // elements from one sequence's plane to the next; 0: one plane for all
  int64_t sequences;
};

// The same mask as arguments of libfa: fa_desc's mask and window_left, and an entry a sequence of fa_forward_args'
// arrays.
struct Pattern {
  bool causal = false;
  bool alibi = false;  // attended pairs have -|distance| in place of 0
  int64_t window_left = -1;
  std::vector<int32_t> leftpad, used, offset;
};

// Whether the mask is such a pattern, in every element. With `alibi`, distances are recognised too, up to 2048: f16
// rounds longer ones, so that the slopes of libfa would give other scores.
bool recognise(const Mask &mask, bool alibi, Pattern *pattern);

}  // namespace fa_ggml

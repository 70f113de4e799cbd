// Trees of new tokens in vectors of scores: the end of score_mod for the few keys that are new.
#pragma once

#include "cpu/kernel/scores.h"
#include "cpu/tree.h"

namespace fa::cpu::FA_ISA {
namespace {

/// A tile's row, and a key, for each lane of a vector.
struct Pairs {
  int row[width];
  int64_t key[width];
};

/// Scores of the pairs that the tree leaves, -inf for others.
inline Vec in_tree(const QueryTile &tile, const Pairs &at, Vec x) {
  alignas(64) float attended[width];
  for (int i = 0; i < width; i++) attended[i] = attends_in_tree(tile, at.row[i], at.key[i]) ? 1.0f : 0.0f;
  return Simd::select(Simd::equal(Simd::load(attended), Simd::zero()), Simd::set1(-infinity), x);
}

/// The distances that ALiBi has where depths say how far tokens are apart.
inline void store_tree_distances(const QueryTile &tile, const Pairs &at, float *distances) {
  for (int i = 0; i < width; i++) distances[i] = tree_distance(tile, at.row[i], at.key[i]);
}

}  // namespace
}  // namespace fa::cpu::FA_ISA

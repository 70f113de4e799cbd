// The order in which tiles of keys and of queries meet in the backward pass: everyone meets everyone once, no tile
// twice in a round, and a causal mask leaves each round the same work.
#include "cpu/backward/rounds.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace fa::cpu {
namespace {

TEST(Rounds, EachPairMeetsOnce) {
  for (int64_t keys = 0; keys <= 12; ++keys) {
    for (int64_t queries = 0; queries <= 12; ++queries) {
      const Rounds rounds(keys, queries);
      std::set<std::pair<int64_t, int64_t>> met;
      for (int64_t round = 0; round < rounds.count(); ++round) {
        std::set<int64_t> busy;
        for (int64_t i = 0; i < keys; ++i) {
          const int64_t j = rounds.partner(round, i);
          if (j < 0) continue;
          EXPECT_LT(j, queries);
          EXPECT_TRUE(busy.insert(j).second) << "queries " << j << " are met twice in round " << round;
          EXPECT_TRUE(met.insert({i, j}).second) << i << " and " << j << " meet twice";
        }
      }
      EXPECT_EQ(met.size(), static_cast<size_t>(keys * queries)) << keys << " x " << queries;
    }
  }
}

TEST(Rounds, CausalRoundsAreEven) {
  constexpr int64_t tiles = 16;
  const Rounds rounds(tiles, tiles);
  for (int64_t round = 1; round < rounds.count(); ++round) {
    int64_t attended = 0;
    for (int64_t i = 0; i < tiles; ++i) attended += rounds.partner(round, i) >= i;
    EXPECT_EQ(attended, tiles / 2) << round;
  }
}

}  // namespace
}  // namespace fa::cpu

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

TEST(Tournament, EachPairMeetsOnce) {
  for (const int64_t keys : {1, 3, 7, 8, 9, 16, 21}) {
    for (const int64_t queries : {1, 4, 8, 11, 20}) {
      const Tournament all(keys, queries);
      std::set<std::pair<int64_t, int64_t>> met;
      for (int64_t round = 0; round < all.rounds(); ++round) {
        for (int64_t turn = 0; turn < all.turns(); ++turn) {
          std::set<int64_t> busy;
          for (int64_t i = 0; i < keys; ++i) {
            const int64_t j = all.partner(round, turn, i);
            if (j < 0) continue;
            EXPECT_LT(j, queries);
            EXPECT_TRUE(busy.insert(j).second) << "queries " << j << " are met twice in a turn of round " << round;
            EXPECT_TRUE(met.insert({i, j}).second) << i << " and " << j << " meet twice";
          }
        }
      }
      EXPECT_EQ(met.size(), static_cast<size_t>(keys * queries)) << keys << " x " << queries;
    }
  }
}

TEST(Tournament, AGroupMeetsOneGroupARound) {
  const Tournament all(16, 16);
  ASSERT_EQ(all.key_groups(), 4);
  for (int64_t round = 0; round < all.rounds(); ++round) {
    std::set<std::pair<int64_t, int64_t>> met;
    for (int64_t turn = 0; turn < all.turns(); ++turn)
      for (int64_t i = 0; i < 16; ++i) met.insert({i / all.group(), all.partner(round, turn, i) / all.group()});
    EXPECT_EQ(met.size(), 4U) << round;
  }
}

TEST(Tournament, FewTilesAreOneGroup) {
  const Tournament all(7, 5);
  EXPECT_EQ(all.rounds(), 1);
  EXPECT_EQ(all.turns(), Rounds(7, 5).count());
}

}  // namespace
}  // namespace fa::cpu

// The order of (key tile, query tile) pairs in the backward pass: each pair once, no tile twice in a round, and the
// same work in each round under a causal mask.
#include "cpu/backward/pair_schedule.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace fa::cpu {
namespace {

TEST(RoundRobin, HasEachPairOnce) {
  for (int64_t keys = 0; keys <= 12; ++keys) {
    for (int64_t queries = 0; queries <= 12; ++queries) {
      const RoundRobin rounds(keys, queries);
      std::set<std::pair<int64_t, int64_t>> pairs;
      for (int64_t round = 0; round < rounds.rounds(); ++round) {
        std::set<int64_t> busy;
        for (int64_t i = 0; i < keys; ++i) {
          const int64_t j = rounds.partner(round, i);
          if (j < 0) continue;
          EXPECT_LT(j, queries);
          EXPECT_TRUE(busy.insert(j).second) << "queries " << j << " are twice in round " << round;
          EXPECT_TRUE(pairs.insert({i, j}).second) << "pair " << i << ", " << j << " twice";
        }
      }
      EXPECT_EQ(pairs.size(), static_cast<size_t>(keys * queries)) << keys << " x " << queries;
    }
  }
}

TEST(RoundRobin, CausalRoundsAreEven) {
  constexpr int64_t tiles = 16;
  const RoundRobin rounds(tiles, tiles);
  for (int64_t round = 1; round < rounds.rounds(); ++round) {
    int64_t attended = 0;
    for (int64_t i = 0; i < tiles; ++i) attended += rounds.partner(round, i) >= i;
    EXPECT_EQ(attended, tiles / 2) << round;
  }
}

TEST(PairSchedule, HasEachPairOnce) {
  for (const int64_t keys : {1, 3, 7, 8, 9, 16, 21}) {
    for (const int64_t queries : {1, 4, 8, 11, 20}) {
      const PairSchedule schedule(keys, queries);
      std::set<std::pair<int64_t, int64_t>> pairs;
      for (int64_t round = 0; round < schedule.rounds(); ++round) {
        for (int64_t step = 0; step < schedule.steps(); ++step) {
          std::set<int64_t> busy;
          for (int64_t i = 0; i < keys; ++i) {
            const int64_t j = schedule.partner(round, step, i);
            if (j < 0) continue;
            EXPECT_LT(j, queries);
            EXPECT_TRUE(busy.insert(j).second) << "queries " << j << " are twice in a turn of round " << round;
            EXPECT_TRUE(pairs.insert({i, j}).second) << "pair " << i << ", " << j << " twice";
          }
        }
      }
      EXPECT_EQ(pairs.size(), static_cast<size_t>(keys * queries)) << keys << " x " << queries;
    }
  }
}

TEST(PairSchedule, AGroupMeetsOneGroupARound) {
  const PairSchedule schedule(16, 16);
  ASSERT_EQ(schedule.key_groups(), 4);
  for (int64_t round = 0; round < schedule.rounds(); ++round) {
    std::set<std::pair<int64_t, int64_t>> pairs;
    for (int64_t step = 0; step < schedule.steps(); ++step)
      for (int64_t i = 0; i < 16; ++i)
        pairs.insert({i / schedule.group(), schedule.partner(round, step, i) / schedule.group()});
    EXPECT_EQ(pairs.size(), 4U) << round;
  }
}

TEST(PairSchedule, FewTilesAreOneGroup) {
  const PairSchedule schedule(7, 5);
  EXPECT_EQ(schedule.rounds(), 1);
  EXPECT_EQ(schedule.steps(), RoundRobin(7, 5).rounds());
}

}  // namespace
}  // namespace fa::cpu

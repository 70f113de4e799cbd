// A deterministic, conflict-free order of the (key tile, query tile) pairs of a head. In a round every key tile meets
// at most one query tile and vice versa: the pairs of a round may be processed in parallel without atomics, and each
// tile accumulates its gradient in one order, whichever threads do it. It is a round-robin schedule: round 0 has the
// pairs (i, i); in each later round tiles i and j meet crosswise (keys i with queries j, keys j with queries i), of
// which a causal mask leaves one. So all rounds have the same number of pairs, masked or not.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fa::cpu {

class RoundRobin {
 public:
  RoundRobin(int64_t key_tiles, int64_t query_tiles) : query_tiles_(query_tiles) {
    const int64_t larger = std::max(key_tiles, query_tiles);
    tiles_ = key_tiles == 0 || query_tiles == 0 ? 0 : larger + (larger > 1 ? larger % 2 : 0);
  }

  int64_t rounds() const { return tiles_; }

  /// The query tile that key tile `keys` meets, or -1.
  int64_t partner(int64_t round, int64_t keys) const {
    const int64_t queries = round == 0 ? keys : opponent(round - 1, keys);
    return queries < query_tiles_ ? queries : -1;
  }

 private:
  /// The circle method: two tiles meet whose numbers add up to the round's; the last tile meets the one left over.
  int64_t opponent(int64_t round, int64_t i) const {
    const int64_t circle = tiles_ - 1;
    if (i == circle) return round * (tiles_ / 2) % circle;
    const int64_t other = (round - i % circle + circle) % circle;
    return other == i ? circle : other;
  }

  int64_t query_tiles_, tiles_;
};

/// Two levels, for many tiles: rounds of groups of tiles, and in each round steps of the tiles within two groups that
/// meet. Two groups stay in the last-level cache for all their steps.
class PairSchedule {
 public:
  PairSchedule(int64_t key_tiles, int64_t query_tiles)
      : group_(at_least_1(key_tiles, query_tiles) < 2 * group_tiles ? at_least_1(key_tiles, query_tiles) : group_tiles),
        key_tiles_(key_tiles),
        query_tiles_(query_tiles),
        groups_(groups(key_tiles), groups(query_tiles)),
        within_(std::min(group_, key_tiles), std::min(group_, query_tiles)) {}

  int64_t rounds() const { return groups_.rounds(); }
  int64_t steps() const { return within_.rounds(); }
  int64_t group() const { return group_; }
  int64_t key_groups() const { return groups(key_tiles_); }

  /// The group of query tiles that a group of key tiles meets in a round, or -1.
  int64_t partner_group(int64_t round, int64_t key_group) const { return groups_.partner(round, key_group); }

  /// The query tile that key tile `keys` meets, or -1.
  int64_t partner(int64_t round, int64_t step, int64_t keys) const {
    const int64_t group = partner_group(round, keys / group_);
    const int64_t member = group < 0 ? -1 : within_.partner(step, keys % group_);
    const int64_t queries = group * group_ + member;
    return member >= 0 && queries < query_tiles_ ? queries : -1;
  }

 private:
  static constexpr int64_t group_tiles = 4;

  static int64_t at_least_1(int64_t a, int64_t b) { return std::max<int64_t>({a, b, 1}); }
  int64_t groups(int64_t tiles) const { return (tiles + group_ - 1) / group_; }

  int64_t group_, key_tiles_, query_tiles_;
  RoundRobin groups_, within_;
};

}  // namespace fa::cpu

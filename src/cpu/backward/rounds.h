// The order in which the tiles of a head meet. In a round every tile of keys meets at most one tile of queries and the
// other way round, so that all pairs of a round may be worked on at once, and each tile's sum has one order whoever
// works on it. The rounds are those of a tournament: first everyone meets itself, then in each round two tiles i and j
// meet crosswise (keys i with queries j, keys j with queries i), of which a causal mask leaves one. A round of either
// kind has as many pairs as any other.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fa::cpu {

class Rounds {
 public:
  Rounds(int64_t key_tiles, int64_t query_tiles) : query_tiles_(query_tiles) {
    const int64_t more = std::max(key_tiles, query_tiles);
    players_ = key_tiles == 0 || query_tiles == 0 ? 0 : more + (more > 1 ? more % 2 : 0);
  }

  int64_t count() const { return players_; }

  /// The tile of queries that tile `keys` meets, or -1.
  int64_t partner(int64_t round, int64_t keys) const {
    const int64_t queries = round == 0 ? keys : opponent(round - 1, keys);
    return queries < query_tiles_ ? queries : -1;
  }

 private:
  /// The circle method: all but the last meet whose number adds up to the round's, the last whoever would meet itself.
  int64_t opponent(int64_t round, int64_t i) const {
    const int64_t circle = players_ - 1;
    if (i == circle) return round * (players_ / 2) % circle;
    const int64_t other = (round - i % circle + circle) % circle;
    return other == i ? circle : other;
  }

  int64_t query_tiles_, players_;
};

/// Where there are many tiles: rounds of groups, and in each of them turns of the members of the groups that meet. What
/// two groups bring into the last cache serves all turns of theirs.
class Tournament {
 public:
  Tournament(int64_t key_tiles, int64_t query_tiles)
      : group_(larger(key_tiles, query_tiles) < 2 * grouped ? larger(key_tiles, query_tiles) : grouped),
        key_tiles_(key_tiles),
        query_tiles_(query_tiles),
        groups_(groups(key_tiles), groups(query_tiles)),
        members_(std::min(group_, key_tiles), std::min(group_, query_tiles)) {}

  int64_t rounds() const { return groups_.count(); }
  int64_t turns() const { return members_.count(); }
  int64_t group() const { return group_; }
  int64_t key_groups() const { return groups(key_tiles_); }

  /// The group of tiles of queries that a group of tiles of keys meets in a round, or -1.
  int64_t partner_group(int64_t round, int64_t key_group) const { return groups_.partner(round, key_group); }

  /// The tile of queries that tile `keys` meets, or -1.
  int64_t partner(int64_t round, int64_t turn, int64_t keys) const {
    const int64_t group = partner_group(round, keys / group_);
    const int64_t member = group < 0 ? -1 : members_.partner(turn, keys % group_);
    const int64_t queries = group * group_ + member;
    return member >= 0 && queries < query_tiles_ ? queries : -1;
  }

 private:
  static constexpr int64_t grouped = 4;

  static int64_t larger(int64_t a, int64_t b) { return std::max<int64_t>({a, b, 1}); }
  int64_t groups(int64_t tiles) const { return (tiles + group_ - 1) / group_; }

  int64_t group_, key_tiles_, query_tiles_;
  Rounds groups_, members_;
};

}  // namespace fa::cpu

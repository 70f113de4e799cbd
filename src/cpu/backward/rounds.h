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

}  // namespace fa::cpu

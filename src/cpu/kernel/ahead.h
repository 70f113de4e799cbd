// The rows that decode streams over, and asking memory for them ahead of time. Both products keep memory busy: the
// first asks for values, the second for the next block's keys. Asked for together they would wait on memory in one
// product and leave it idle in the other. What is asked for is every head's, row by row: memory is slower by columns,
// and much slower where a head's rows are far apart.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Keys worked on at a time: their rows and values' stay in the first cache.
constexpr int decode_keys = 32;
static_assert(key_block % decode_keys == 0);

/// Asks for the lines of some rows, in order and a few at a time.
class Ahead {
 public:
  Ahead(const char *const *row, int rows, int64_t bytes) : row_(row), end_(row + rows), bytes_(bytes) {}

  void ask(int64_t lines) {
    if (row_ == end_) return;
    for (const char *end = *row_ + at_ + lines * 64, *line = *row_ + at_; line < end; line += 64)
      __builtin_prefetch(line);
    at_ += lines * 64;
    if (at_ < bytes_) return;
    at_ = 0;
    row_++;
  }

 private:
  const char *const *row_, *const *end_;
  int64_t bytes_, at_ = 0;
};

/// Where rows of keys and values stand, of the tile's first head.
struct BlockRows {
  int n;
  const char *key[decode_keys], *value[decode_keys];

  BlockRows(const KeyStream &stream, int64_t begin, int64_t end) : n(static_cast<int>(end - begin)) {
    for (int j = 0; j < n; j++) key[j] = row_of(stream.k, stream.pages, begin + j);
    for (int j = 0; j < n; j++) value[j] = row_of(stream.v, stream.pages, begin + j);
  }
};

/// A block of keys and what is asked for while it is worked on.
struct Block {
  const BlockRows &rows;
  int64_t first;
  Ahead &keys, &values;
};

}  // namespace
}  // namespace fa::cpu::FA_ISA

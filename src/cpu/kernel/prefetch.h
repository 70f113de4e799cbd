// Software prefetch for decode. Both products keep memory busy: the first prefetches values, the second the next
// block's keys. With both in one product, that one would wait on memory, and memory would be idle in the other. Rows of
// all heads are prefetched whole, one after another: access by columns is slower, much slower where a head's rows are
// far apart.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Keys of a block, at most.
constexpr int decode_keys = 32;
static_assert(key_block % decode_keys == 0);

/// Keys of a block whose rows of k and v have `bytes` a key: few enough that these, the rows that are prefetched
/// meanwhile and the queries share an L1 cache of 32 KiB. On Zen 3, blocks of 32 KiB cost a fifth of the speed.
inline int keys_of_block(int64_t bytes) {
  constexpr int min_keys = larger(8, width);
  int keys = decode_keys;
  while (keys > min_keys && keys * bytes > 8192) keys /= 2;
  return keys;
}

inline int64_t cache_lines(int64_t bytes) {
  return (bytes + 63) / 64;
}

/// Prefetches the cache lines of some rows, in order and a few at a time.
class Prefetcher {
 public:
  Prefetcher(const char *const *row, int rows, int64_t bytes) : row_(row), end_(row + rows), bytes_(bytes) {}

  void prefetch(int64_t lines) {
    if (row_ == end_) return;
    for (const char *end = *row_ + at_ + lines * 64, *line = *row_ + at_; line < end; line += 64)
      __builtin_prefetch(line);
    at_ += lines * 64;
    if (at_ < bytes_) return;
    at_ = 0;
    row_++;
  }

  /// prefetch(lines), n times; faster where that many lines hold a whole row.
  void prefetch_each(int n, int64_t lines) {
    if (bytes_ > lines * 64) {
      for (int i = 0; i < n; i++) prefetch(lines);
      return;
    }
    for (const char *const *const last = n < end_ - row_ ? row_ + n : end_; row_ != last; row_++)
      for (int64_t line = 0; line < bytes_; line += 64) __builtin_prefetch(*row_ + line);
  }

 private:
  const char *const *row_, *const *end_;
  int64_t bytes_, at_ = 0;
};

/// Pointers to the rows of a block of keys and values, of the tile's first head.
struct KvBlock {
  int n;
  const char *key[decode_keys], *value[decode_keys];

  KvBlock(const KeyStream &stream, int64_t begin, int64_t end) : n(static_cast<int>(end - begin)) {
    for (int j = 0; j < n; j++) key[j] = row_of(stream.k, stream.pages, begin + j);
    for (int j = 0; j < n; j++) value[j] = row_of(stream.v, stream.pages, begin + j);
  }
};

/// The rows of a block for one head: those of its first head, and how far behind them.
struct HeadRows {
  const char *const *row;
  int64_t offset;
  int n;

  const char *operator[](int j) const { return row[j] + offset; }
};

}  // namespace
}  // namespace fa::cpu::FA_ISA

// Sizes computed from the shapes of legal calls, which may exceed any memory.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/status.h"

namespace fa {

/// A saturating number of rows, parts or bytes: no operation wraps, and results are monotonic in their operands.
class Count {
 public:
  /// n is not negative.
  constexpr Count(std::integral auto n) : n_(static_cast<uint64_t>(n)) {}

  constexpr uint64_t value() const { return n_; }

  friend constexpr Count operator+(Count a, Count b) {
    uint64_t sum = 0;
    return __builtin_add_overflow(a.n_, b.n_, &sum) ? saturated : sum;
  }
  friend constexpr Count operator*(Count a, Count b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a.n_, b.n_, &product) ? saturated : product;
  }
  friend constexpr Count operator/(Count a, Count b) { return a.n_ == saturated ? saturated : a.n_ / b.n_; }
  friend constexpr Count rounded_up(Count n, Count multiple) { return (n + (multiple.n_ - 1)) / multiple * multiple; }
  friend constexpr auto operator<=>(Count, Count) = default;

 private:
  static constexpr uint64_t saturated = std::numeric_limits<uint64_t>::max();

  uint64_t n_;
};

/// Stores the bytes of a workspace, or refuses those that size_t does not hold.
inline fa_status store_size(Count bytes, size_t *size) {
  if (bytes >= Count(std::numeric_limits<size_t>::max()))
    return fail(FA_ERROR_OUT_OF_MEMORY,
                "the workspace of these arguments has more bytes than fit in a size_t: a smaller batch, fewer splits "
                "(args.num_splits), or bounds (args.max_seqlen_q, max_seqlen_k) need less");
  *size = static_cast<size_t>(bytes.value());
  return FA_OK;
}

}  // namespace fa

// A tensor of a test: in guarded memory, in any of the layouts that strides can describe, with a pattern in the gaps
// that shows writes to them and poisons reads of them.
#pragma once

#include <fa.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "reference/memory.h"

namespace reference {

/// A tensor's layout in memory. The first two have no gaps.
enum class Layout {
  bshd,        // (batch, sequence, heads, dim), contiguous
  bhsd,        // (batch, heads, sequence, dim), contiguous
  slice,       // bshd with rows three times as far apart: one of a packed QKV
  padded,      // bshd with odd gaps after every row, head and batch entry
  odd,         // bshd one element behind an aligned address
  reversed,    // bshd seen from its end: negative strides in batch, sequence and heads
  mirrored,    // bshd with batches and the last dimension reversed
  stepped,     // bshd with every second element left out
  transposed,  // (batch, heads, dim, sequence): the last dimension's stride is the sequence length
  one_batch,   // stride 0 in batch: inputs only
  one_row,     // stride 0 in sequence: inputs only
  one_head     // stride 0 in heads: inputs only
};

constexpr int layout_count = 12;
constexpr int output_layout_count = 9;  // the first ones, without stride 0
const char *name_of(Layout layout);

class Tensor {
 public:
  using Shape = std::array<int64_t, 4>;

  Tensor() = default;
  Tensor(Shape shape, fa_dtype dtype, Layout layout, Guard guard);

  /// The view to hand to the library; all zero for a default-constructed tensor.
  fa_tensor view() const { return view_; }
  explicit operator bool() const { return view_.dtype != 0; }
  const Shape &shape() const { return shape_; }
  fa_dtype dtype() const { return view_.dtype; }

  double get(int64_t i, int64_t j, int64_t k, int64_t l) const;
  void set(int64_t i, int64_t j, int64_t k, int64_t l, double x) const;
  char *at(int64_t i, int64_t j, int64_t k, int64_t l) const;  // of a packed type, that of its unit

  /// Sets blocks, whose elements share a scale: all elements at once.
  void set_blocks(const std::function<double(int64_t, int64_t, int64_t, int64_t)> &value) const;

  /// Calls f(i, j, k, l, n) for every element, n counting them in the order of the indices.
  template <class F>
  void each(F f) const {
    int64_t n = 0;
    for (int64_t i = 0; i < shape_[0]; ++i)
      for (int64_t j = 0; j < shape_[1]; ++j)
        for (int64_t k = 0; k < shape_[2]; ++k)
          for (int64_t l = 0; l < shape_[3]; ++l) f(i, j, k, l, n++);
  }

  /// Nearly normal numbers times amplitude; which ones depends on (seed, stream) and each element's index.
  void randomise(uint64_t seed, uint64_t stream, double amplitude) const;

  /// Fills everything, gaps included, with the pattern: NaN in every floating-point type.
  void clear() const;

  /// Where the memory begins: the element (0, 0, 0, 0) is behind it by the gaps and the negative strides.
  const char *memory() const { return memory_.data(); }

  /// All bytes, to see later whether they changed.
  std::vector<char> bytes() const;

  /// "" when no byte outside the elements of rows (i, j) with written[i * shape[1] + j] differs from the pattern, else
  /// where the first one is. For lse-like tensors sequence_axis is 2.
  std::string untouched_outside(const std::vector<char> &written, int sequence_axis = 1) const;

 private:
  Shape shape_{};
  fa_tensor view_{};
  int64_t unit_ = 1, unit_bytes_ = 0;  // elements of a unit; more than 1 of packed types and blocks
  bool codes_ = false;                 // a quantised type
  GuardedMemory memory_;
};

}  // namespace reference

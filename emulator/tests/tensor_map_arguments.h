// Arguments of cuTensorMapEncodeTiled, for tests that change one at a time.
#pragma once

#include <cstdint>

namespace emulated {

/// Good as they are: a box of 64 x 16 in a tensor of f16, in lines of 128 swizzled bytes.
struct TensorMapArguments {
  uint32_t type = 6, rank = 3, interleave = 0, swizzle = 3, promotion = 2, fill = 1;
  uint64_t address = 0x7f0000001000;
  uint64_t extents[5] = {100, 200, uint64_t{1} << 32, 1, 1}, strides[4] = {208, 65536, 65536, 65536};
  uint32_t box[5] = {64, 16, 1, 1, 1}, steps[5] = {1, 2, 8, 1, 1};

  /// f with these arguments.
  template <class F>
  auto encode(F f, void *out) const {
    return f(out, type, rank, reinterpret_cast<void *>(address), &extents[0], &strides[0], &box[0], &steps[0],
             interleave, swizzle, promotion, fill);
  }
};

}  // namespace emulated

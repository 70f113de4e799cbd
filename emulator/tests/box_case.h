// A tensor and a box of it: the result of cp.async.bulk.tensor in shared memory, by coordinates, rows and
// chunks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "client.h"
#include "exec/tensor_map.h"

namespace emulated {

struct alignas(64) Map {
  uint8_t bytes[fa::emu::tensor_map_bytes];
};
struct Coordinates {
  int at[5];
};

/// A tensor, a box of it, and the expected shared memory.
struct BoxCase {
  unsigned type = 0, rank = 1, element = 1, swizzle = 0, fill = 0;
  uint64_t extent[5] = {1, 1, 1, 1, 1}, stride[5] = {};  // bytes
  uint32_t box[5] = {1, 1, 1, 1, 1}, step[5] = {1, 1, 1, 1, 1};
  Coordinates at{};

  uint64_t tensor_bytes() const { return stride[rank - 1] * extent[rank - 1]; }
  Map encode(CUdeviceptr address) const {
    Map map;
    std::string wrong = fa::emu::encode_tiled(map.bytes, type, rank, reinterpret_cast<void *>(address), extent,
                                              stride + 1, box, step, 0, swizzle, 0, fill);
    EXPECT_EQ(wrong, "");
    return map;
  }
  uint32_t rows() const {
    uint32_t count = 1;
    for (unsigned i = 1; i < rank; i++) count *= (box[i] + step[i] - 1) / step[i];
    return count;
  }
  uint32_t span() const { return swizzle == 0 ? 0 : swizzle == 1 ? 32 : swizzle == 2 ? 64 : 128; }
  uint32_t width() const { return box[0] * element; }
  uint32_t pitch() const { return std::max(width(), span()); }

  /// Where byte x of row y is, by rows and chunks: a span's chunks change places within it, by the number of the line
  /// of 128 bytes that it is in.
  uint32_t place(uint32_t y, uint32_t x) const {
    if (swizzle == 0) return y * pitch() + x;
    const uint32_t chunk_of[] = {0, 16, 16, 16, 32, 32, 64};
    uint32_t chunk = chunk_of[swizzle], chunks = span() / chunk, line = y * span() / 128;
    uint32_t number = (x / chunk) ^ (line % chunks);
    uint32_t inside = x % chunk;
    if (swizzle == 5 && line % 2) inside = inside < 8 || (inside >= 16 && inside < 24) ? inside + 8 : inside - 8;
    return y * span() + number * chunk + inside;
  }

  /// Byte x of the row whose first element has these coordinates: where it is in the tensor, or -1.
  int64_t offset(const int64_t (&first)[5], uint32_t x) const {
    int64_t column = first[0] + static_cast<int64_t>(x / element);
    if (column < 0 || column >= static_cast<int64_t>(extent[0])) return -1;
    uint64_t offset = x % element + static_cast<uint64_t>(column) * element;
    for (unsigned i = 1; i < rank; i++) {
      if (first[i] < 0 || first[i] >= static_cast<int64_t>(extent[i])) return -1;
      offset += static_cast<uint64_t>(first[i]) * stride[i];
    }
    return static_cast<int64_t>(offset);
  }
  /// The byte that is copied from there.
  uint8_t value(const std::vector<uint8_t> &tensor, const int64_t (&first)[5], uint32_t x) const {
    uint8_t nan = x % element == element - 1 ? 0x7f : 0xff;
    int64_t from = offset(first, x);
    return from >= 0 ? tensor[static_cast<size_t>(from)] : fill ? nan : 0;
  }

  std::vector<uint8_t> expected(const std::vector<uint8_t> &tensor) const {
    std::vector<uint8_t> shared(rows() * pitch(), 0xee);
    for (uint32_t y = 0; y < rows(); y++) {
      int64_t first[5] = {at.at[0]};
      uint32_t rest = y;
      for (unsigned i = 1; i < rank; i++) {
        uint32_t steps = (box[i] + step[i] - 1) / step[i];
        first[i] = at.at[i] + static_cast<int64_t>(rest % steps) * step[i];
        rest /= steps;
      }
      for (uint32_t x = 0; x < width(); x++) shared[place(y, x)] = value(tensor, first, x);
    }
    return shared;
  }
};

}  // namespace emulated

// Rows are walked by counting: tiles dimension by dimension, im2col pixel by pixel within the bounding box.
#include "exec/tensor_box.h"

#include <algorithm>
#include <cstring>

namespace fa::emu {

uint32_t TensorBox::pitch() const {
  constexpr uint32_t span[] = {0, 32, 64, 128, 128, 128, 128};
  return std::max(static_cast<uint32_t>(map.shared_bytes(row_elements())), span[static_cast<size_t>(map.swizzle)]);
}

/// Rows along a dimension of a tile: every step-th element of the box.
uint32_t TensorBox::steps_of(uint32_t dimension) const {
  return (map.box[dimension] + map.step[dimension] - 1) / map.step[dimension];
}

uint32_t TensorBox::rows() const {
  if (four_rows) return 4;
  if (map.im2col) return map.pixels;
  uint32_t count = 1;
  for (uint32_t i = 1; i < map.rank; i++) count *= steps_of(i);
  return count;
}

TensorBox::Walk TensorBox::begin() const {
  Walk walk;
  for (uint32_t i = 0; i < map.rank; i++) walk.at[i] = at[i];
  if (four_rows) walk.at[1] = row_at[0];
  return walk;
}

void TensorBox::advance(Walk &walk) const {
  if (four_rows) {
    walk.at[1] = row_at[++walk.steps[1] & 3];
    return;
  }
  for (uint32_t i = 1; i < map.rank; i++) {
    walk.at[i] += map.step[i];
    if (map.im2col) {
      if (i == map.rank - 1) {
        walk.at[i] += 1 - int64_t{map.step[i]};  // the next image
        return;
      }
      if (walk.at[i] < static_cast<int64_t>(map.extent[i]) + map.upper[i - 1]) return;
      walk.at[i] = map.lower[i - 1];
    } else {
      if (++walk.steps[i] < steps_of(i)) return;
      walk.steps[i] = 0;
      walk.at[i] = at[i];
    }
  }
}

TensorRow TensorBox::row(const Walk &walk) const {
  TensorRow row;
  uint64_t address = map.address;
  for (uint32_t i = 1; i < map.rank; i++) {
    int64_t coordinate = walk.at[i];
    if (map.im2col && i < map.rank - 1) coordinate += offset[i - 1];
    if (coordinate < 0 || coordinate >= static_cast<int64_t>(map.extent[i])) return row;
    address += static_cast<uint64_t>(coordinate) * map.stride[i];
  }
  int64_t first = std::max<int64_t>(at[0], 0);
  int64_t end = std::min(int64_t{at[0]} + row_elements(), static_cast<int64_t>(map.extent[0]));
  if (end <= first) return row;
  row.address = address + map.global_bytes(static_cast<uint64_t>(first));
  row.first = static_cast<uint32_t>(map.global_bytes(static_cast<uint64_t>(first - at[0])));
  row.bytes = static_cast<uint32_t>(map.global_bytes(static_cast<uint64_t>(end - first)));
  return row;
}

/// f(offset in dense rows, offset in shared memory, bytes) for all that stays together.
template <class F>
void TensorBox::each_chunk(uint32_t address, F f) const {
  if (map.swizzle == TensorSwizzle::none && !map.has_gaps()) return f(0, 0, bytes());
  uint32_t chunk = map.has_gaps() ? 4 : map.swizzle == TensorSwizzle::span128_atom32_flip8 ? 8 : 16;
  uint32_t width = row_bytes(), step = pitch(), count = rows();
  for (uint32_t row = 0; row < count; row++)
    for (uint32_t at_byte = 0; at_byte < width; at_byte += chunk)
      f(row * width + at_byte, swizzled(address + row * step + map.shared_offset(at_byte), map.swizzle) - address,
        chunk);
}

void TensorBox::from_shared(uint32_t address, const uint8_t *shared, uint8_t *dense) const {
  each_chunk(address, [&](uint32_t in_dense, uint32_t in_shared, uint32_t bytes) {
    std::memcpy(dense + in_dense, shared + in_shared, bytes);
  });
}

void TensorBox::to_shared(uint32_t address, const uint8_t *dense, uint8_t *shared) const {
  each_chunk(address, [&](uint32_t in_dense, uint32_t in_shared, uint32_t bytes) {
    std::memcpy(shared + in_shared, dense + in_dense, bytes);
  });
}

}  // namespace fa::emu

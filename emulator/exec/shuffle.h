// Which lane shfl.sync reads (PTX ISA 9.7.9.6).
#pragma once

#include <cstdint>

namespace fa::emu {

enum class Shuffle : uint8_t { up, down, butterfly, index };

struct ShuffleSource {
  uint32_t lane;  // the lane's own where it is not in range
  bool in_range;
};

/// by: lane or distance; bounds: clamp in bits 0-4, segment mask in bits 8-12.
constexpr ShuffleSource shuffle_source(Shuffle mode, uint32_t lane, uint32_t by, uint32_t bounds) {
  uint32_t clamp = bounds & 31, segment = bounds >> 8 & 31;
  uint32_t highest = (lane & segment) | (clamp & ~segment), from = 0;
  by &= 31;
  bool in_range = false;
  switch (mode) {
    case Shuffle::up:
      from = lane - by;
      in_range = static_cast<int32_t>(from) >= static_cast<int32_t>(highest);
      break;
    case Shuffle::down:
      from = lane + by;
      in_range = from <= highest;
      break;
    case Shuffle::butterfly:
      from = lane ^ by;
      in_range = from <= highest;
      break;
    case Shuffle::index:
      from = (lane & segment) | (by & ~segment);
      in_range = from <= highest;
      break;
  }
  return {in_range ? from & 31 : lane, in_range};
}

}  // namespace fa::emu

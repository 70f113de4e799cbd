#include "exec/tensor_map_bits.h"

#include <array>
#include <cstring>

namespace fa::emu {
namespace {

constexpr std::array types{TensorType::u8,      TensorType::u16, TensorType::u32, TensorType::s32,
                           TensorType::u64,     TensorType::s64, TensorType::f16, TensorType::f32,
                           TensorType::f32_ftz, TensorType::f64, TensorType::bf16};
constexpr std::array<uint32_t, types.size()> element_bytes{1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2};
constexpr std::array swizzles{TensorSwizzle::none, TensorSwizzle::span32, TensorSwizzle::span64,
                              TensorSwizzle::span128};

}  // namespace

bool decode_bits(const void *bytes, TensorMap &map) {
  std::array<uint64_t, 8> words;
  std::memcpy(words.data(), bytes, sizeof words);
  std::array<uint32_t, 16> halves;
  std::memcpy(halves.data(), bytes, sizeof halves);
  const auto field = [&](uint32_t from, uint32_t count) { return halves[2] >> from & ((1u << count) - 1); };
  const uint32_t rank = field(4, 3) + 1, type = field(7, 4);
  const bool tf32 = field(16, 1) != 0;
  const uint32_t others = halves[2] & ~(0x0021'67ffu | 1u << 18);
  const uint32_t steps = static_cast<uint32_t>(words[6] >> 32 & 0xff'ffff);
  const bool known = field(0, 4) == 2 && field(18, 1) == 1 && others == 0 && rank <= max_dimensions &&
                     type < types.size() && halves[7] == 0 && steps == 0 && halves[15] == 0;
  if (!known || (tf32 && types[type] != TensorType::f32)) return false;
  TensorMap read;
  read.type = tf32 ? TensorType::tf32 : types[type];
  read.rank = rank;
  read.address = words[0];
  read.swizzle = swizzles[field(13, 2)];
  read.stride[0] = element_bytes[type];
  for (uint32_t i = 0; i < rank; i++) {
    read.extent[i] = uint64_t{halves[8 + i]} + 1;
    read.box[i] = (i == 0 ? halves[13] >> 24 : halves[14] >> 8 * (i - 1) & 0xff) + 1;
    if (i > 0) read.stride[i] = uint64_t{halves[2 + i]} * 16;
  }
  if (!wrong_with(read).empty()) return false;
  map = read;
  return true;
}

}  // namespace fa::emu

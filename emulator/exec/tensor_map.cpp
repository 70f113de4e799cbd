// Arguments of tensor maps are checked as the driver's documentation says, argument by argument.
#include "exec/tensor_map.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "exec/tensor_map_bits.h"

namespace fa::emu {
namespace {

constexpr uint64_t signature = 0x70616d726f736e74;  // where NVIDIA's own maps never have it, most likely
constexpr uint64_t max_extent = uint64_t{1} << 32, stride_limit = uint64_t{1} << 40;

/// The 128 bytes.
struct Encoded {
  uint64_t signature;
  uint64_t of_others;  // programs change bits of it (tensor_map.h)
  uint64_t address;
  uint64_t stride[4];
  uint32_t extent_less_one[5];
  uint16_t box_less_one[5];
  uint8_t step[5];
  uint8_t type, rank, interleave, swizzle, promotion, fill, im2col;
  int16_t lower[3], upper[3];
  uint16_t channels, pixels;
  uint16_t gap;
  uint32_t set;
  uint8_t atomicity;
  uint8_t rest[3];
};
static_assert(offsetof(Encoded, of_others) == 8);
static_assert(sizeof(Encoded) == tensor_map_bytes && std::is_trivially_copyable_v<Encoded>);

bool is_float(TensorType type) {
  return type >= TensorType::f16 && type <= TensorType::tf32_ftz;
}

uint32_t bytes_of(TensorType type) {
  constexpr std::array<uint8_t, 16> bytes{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};
  return bytes[static_cast<size_t>(type)];
}

uint32_t span_of(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::none     ? 0
         : swizzle == TensorSwizzle::span32 ? 32
         : swizzle == TensorSwizzle::span64 ? 64
                                            : 128;
}

/// The swizzles of 128 bytes follow one another as the values of .swizzle_atomicity do.
uint8_t atomicity_of(TensorSwizzle swizzle) {
  return static_cast<uint8_t>(static_cast<uint8_t>(swizzle) - static_cast<uint8_t>(TensorSwizzle::span128));
}

std::string argument(const char *name, uint32_t index, uint64_t value, const std::string &rule) {
  return std::string(name) + "[" + std::to_string(index) + "] is " + std::to_string(value) + " and must be " + rule;
}

std::string wrong_extents(const TensorMap &map) {
  uint64_t alignment = map.interleave == TensorInterleave::bytes32 || map.has_gaps() ? 32 : 16;
  std::string multiple = "a multiple of " + std::to_string(alignment);
  if (map.address % alignment != 0) return "globalAddress must be " + multiple;
  for (uint32_t i = 0; i < map.rank; i++)
    if (map.extent[i] == 0 || map.extent[i] > max_extent)
      return argument("globalDim", i, map.extent[i], "from 1 to 2^32");
  if (map.extent[0] % map.granularity() != 0)
    return argument("globalDim", 0, map.extent[0],
                    "a multiple of " + std::to_string(map.granularity()) + " for this data type");
  for (uint32_t i = 1; i < map.rank; i++)
    if (map.stride[i] % alignment != 0 || map.stride[i] >= stride_limit)
      return argument("globalStrides", i - 1, map.stride[i], multiple + " below 2^40");
  for (uint32_t i = 0; i < map.rank; i++)
    if (map.step[i] == 0 || map.step[i] > 8) return argument("elementStrides", i, map.step[i], "from 1 to 8");
  return {};
}

/// name: of the argument that says how wide the box is.
std::string wrong_inner(const TensorMap &map, const char *name, uint64_t elements) {
  uint64_t inner = map.shared_bytes(elements);
  std::string is = std::string("the box is ") + std::to_string(inner) + " bytes wide (" + name + ") and ";
  if (map.has_gaps() && elements != 128) return is + "must be 128 elements wide for this data type";
  if (map.interleave != TensorInterleave::none) return {};
  if (inner % 16 != 0) return is + "must be a multiple of 16 bytes";
  uint32_t span = span_of(map.swizzle);
  if (span != 0 && inner > span) return is + "must not exceed the swizzle's " + std::to_string(span) + " bytes";
  return {};
}

std::string wrong_pixels(const TensorMap &map) {
  if (map.rank < 3) return "tensorRank must be 3 to 5 for im2col";
  if (map.channels == 0 || map.channels > 256) return "channelsPerPixel must be from 1 to 256";
  if (map.pixels == 0 || map.pixels > 1024) return "pixelsPerColumn must be from 1 to 1024";
  int32_t limit = map.rank == 3 ? 1 << 15 : map.rank == 4 ? 1 << 7 : 1 << 4;
  for (uint32_t i = 0; i + 2 < map.rank; i++)
    for (int32_t corner : {map.lower[i], map.upper[i]})
      if (corner < -limit || corner >= limit)
        return "a corner of the pixels' box is " + std::to_string(corner) + " and must be from " +
               std::to_string(-limit) + " to " + std::to_string(limit - 1) + " at this rank";
  return wrong_inner(map, "channelsPerPixel", map.channels);
}

std::string checked(const TensorMap &map, void *out) {
  if (!out || reinterpret_cast<uintptr_t>(out) % 64 != 0) return "tensorMap must be 64-byte aligned memory";
  std::string wrong = wrong_with(map);
  if (!wrong.empty()) return wrong;
  TensorMap made = map;
  if (made.address == 0) made.set &= ~map_part::address;  // for tensormap.replace to fill in
  encode(made, out);
  return {};
}

/// The common part of both ways to make a map; its error is one of arguments that cannot even be stored.
std::string read_common(TensorMap &map, uint32_t type, uint32_t rank, const void *address, const uint64_t *extents,
                        const uint64_t *strides, const uint32_t *steps, uint32_t interleave, uint32_t swizzle,
                        uint32_t promotion, uint32_t fill) {
  if (type > static_cast<uint32_t>(TensorType::u6_align16)) return "tensorDataType is not a CUtensorMapDataType";
  if (rank == 0 || rank > max_dimensions) return "tensorRank is " + std::to_string(rank) + " and must be 1 to 5";
  if (!extents || !steps || (rank > 1 && !strides)) return "globalDim, globalStrides or elementStrides is null";
  if (interleave > 2) return "interleave is not a CUtensorMapInterleave";
  if (swizzle > 6) return "swizzle is not a CUtensorMapSwizzle";
  if (promotion > 3) return "l2Promotion is not a CUtensorMapL2promotion";
  if (fill > 1) return "oobFill is not a CUtensorMapFloatOOBfill";
  map.type = static_cast<TensorType>(type);
  map.rank = rank;
  map.address = reinterpret_cast<uint64_t>(address);
  map.interleave = static_cast<TensorInterleave>(interleave);
  map.swizzle = static_cast<TensorSwizzle>(swizzle);
  map.promotion = static_cast<uint8_t>(promotion);
  map.fill = static_cast<TensorFill>(fill);
  map.stride[0] = bytes_of(map.type);
  for (uint32_t i = 0; i < rank; i++) {
    map.extent[i] = extents[i];
    map.step[i] = steps[i];
    if (i > 0) map.stride[i] = strides[i - 1];
  }
  return {};
}

/// The first part that nothing has set, by its name in tensormap.replace, or nothing.
std::string missing_part(const TensorMap &map) {
  const auto lacks = [&](uint32_t part) { return (map.set & part) == 0; };
  if (lacks(map_part::address)) return ".global_address";
  for (uint32_t i = 0; i < map.rank; i++) {
    std::string of_dimension = " of dimension " + std::to_string(i);
    if (lacks(map_part::box << i)) return ".box_dim" + of_dimension;
    if (lacks(map_part::extent << i)) return ".global_dim" + of_dimension;
    if (lacks(map_part::step << i)) return ".element_stride" + of_dimension;
    if (i > 0 && lacks(map_part::stride << (i - 1))) return ".global_stride " + std::to_string(i - 1);
  }
  return {};
}

}  // namespace

uint64_t TensorMap::global_bytes(uint64_t elements) const {
  return type == TensorType::u6_align16 ? elements * 6 / 8 : packed() ? elements / 2 : elements * element_bytes();
}

uint64_t TensorMap::shared_bytes(uint64_t elements) const {
  return has_gaps() ? elements : global_bytes(elements);
}

uint32_t TensorMap::shared_offset(uint32_t byte) const {
  const uint32_t group = 16, bytes = static_cast<uint32_t>(global_bytes(group));
  return has_gaps() ? byte / bytes * group + byte % bytes : byte;
}

std::string wrong_with(const TensorMap &map) {
  if (std::string missing = missing_part(map); !missing.empty())
    return "nothing has set its " + missing + " (128 bytes of zeros become a map when tensormap.replace has)";
  if (map.interleave != TensorInterleave::none && map.rank < 3) return "an interleaved tensor has 3 dimensions or more";
  if (map.interleave == TensorInterleave::bytes32 && map.swizzle != TensorSwizzle::span32)
    return "the 32-byte interleave needs the 32-byte swizzle";
  if (map.atomicity != 0 && map.swizzle != TensorSwizzle::none && map.swizzle < TensorSwizzle::span128)
    return ".swizzle_atomicity is " + std::to_string(map.atomicity) + " and must be 0, 16 bytes, for a swizzle of " +
           std::to_string(span_of(map.swizzle)) + " bytes; of 128 bytes it may be 0 to 3";
  if (map.fill == TensorFill::nan && !is_float(map.type)) return "oobFill of NaN needs a data type of floating point";
  if (std::string wrong = wrong_extents(map); !wrong.empty()) return wrong;
  if (map.im2col) return wrong_pixels(map);
  for (uint32_t i = 0; i < map.rank; i++)
    if (map.box[i] == 0 || map.box[i] > 256) return argument("boxDim", i, map.box[i], "from 1 to 256");
  return wrong_inner(map, "boxDim[0]", map.box[0]);
}

std::string encode_tiled(void *out, uint32_t type, uint32_t rank, const void *address, const uint64_t *extents,
                         const uint64_t *strides, const uint32_t *box, const uint32_t *steps, uint32_t interleave,
                         uint32_t swizzle, uint32_t promotion, uint32_t fill) {
  TensorMap map;
  std::string wrong =
      read_common(map, type, rank, address, extents, strides, steps, interleave, swizzle, promotion, fill);
  if (!wrong.empty()) return wrong;
  if (!box) return "boxDim is null";
  for (uint32_t i = 0; i < rank; i++) map.box[i] = box[i];
  return checked(map, out);
}

std::string encode_im2col(void *out, uint32_t type, uint32_t rank, const void *address, const uint64_t *extents,
                          const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                          uint32_t pixels, const uint32_t *steps, uint32_t interleave, uint32_t swizzle,
                          uint32_t promotion, uint32_t fill) {
  TensorMap map;
  std::string wrong =
      read_common(map, type, rank, address, extents, strides, steps, interleave, swizzle, promotion, fill);
  if (!wrong.empty()) return wrong;
  if (!lower || !upper) return "pixelBoxLowerCorner or pixelBoxUpperCorner is null";
  map.im2col = true;
  map.channels = channels;
  map.pixels = pixels;
  for (uint32_t i = 0; i + 2 < rank; i++) {
    map.lower[i] = lower[i];
    map.upper[i] = upper[i];
  }
  return checked(map, out);
}

std::string replace_address(void *map, const void *address) {
  TensorMap decoded;
  if (!map || !decode(map, decoded)) return "tensorMap holds no tensor map";
  if (!address) return "globalAddress is null";
  decoded.address = reinterpret_cast<uint64_t>(address);
  decoded.set |= map_part::address;
  return checked(decoded, map);
}

void encode(const TensorMap &map, void *bytes) {
  Encoded encoded{};
  encoded.signature = signature;
  encoded.set = map.set;
  encoded.address = map.address;
  for (uint32_t i = 0; i < max_dimensions; i++) {
    encoded.extent_less_one[i] = static_cast<uint32_t>(map.extent[i] - 1);
    encoded.box_less_one[i] = static_cast<uint16_t>(map.box[i] - 1);
    encoded.step[i] = static_cast<uint8_t>(map.step[i]);
    if (i > 0) encoded.stride[i - 1] = map.stride[i];
  }
  encoded.type = static_cast<uint8_t>(map.type);
  encoded.rank = static_cast<uint8_t>(map.rank);
  encoded.interleave = static_cast<uint8_t>(map.interleave);
  encoded.swizzle = static_cast<uint8_t>(map.swizzle);
  encoded.atomicity = map.atomicity;
  encoded.promotion = map.promotion;
  encoded.fill = static_cast<uint8_t>(map.fill);
  encoded.im2col = map.im2col;
  for (size_t i = 0; i < 3; i++) {
    encoded.lower[i] = static_cast<int16_t>(map.lower[i]);
    encoded.upper[i] = static_cast<int16_t>(map.upper[i]);
  }
  encoded.channels = static_cast<uint16_t>(map.channels);
  encoded.pixels = static_cast<uint16_t>(map.pixels);
  std::memcpy(bytes, &encoded, sizeof encoded);
}

bool decode(const void *bytes, TensorMap &map) {
  Encoded encoded;
  std::memcpy(&encoded, bytes, sizeof encoded);
  bool known = encoded.signature == signature && encoded.type <= static_cast<uint8_t>(TensorType::u6_align16) &&
               encoded.rank >= 1 && encoded.rank <= max_dimensions && encoded.interleave <= 2 && encoded.swizzle <= 6 &&
               encoded.atomicity <= 3 && encoded.fill <= 1;
  if (!known) return decode_bits(bytes, map);
  map.set = encoded.set;
  map.type = static_cast<TensorType>(encoded.type);
  map.rank = encoded.rank;
  map.address = encoded.address;
  for (uint32_t i = 0; i < max_dimensions; i++) {
    map.extent[i] = uint64_t{encoded.extent_less_one[i]} + 1;
    map.box[i] = encoded.box_less_one[i] + 1u;
    map.step[i] = encoded.step[i];
    map.stride[i] = i == 0 ? bytes_of(map.type) : encoded.stride[i - 1];
  }
  map.interleave = static_cast<TensorInterleave>(encoded.interleave);
  map.swizzle = static_cast<TensorSwizzle>(encoded.swizzle);
  map.atomicity = encoded.atomicity;
  if (map.swizzle >= TensorSwizzle::span128) map.atomicity = atomicity_of(map.swizzle);
  map.promotion = encoded.promotion;
  map.fill = static_cast<TensorFill>(encoded.fill);
  map.im2col = encoded.im2col != 0;
  for (size_t i = 0; i < 3; i++) {
    map.lower[i] = encoded.lower[i];
    map.upper[i] = encoded.upper[i];
  }
  map.channels = encoded.channels;
  map.pixels = encoded.pixels;
  return true;
}

bool decode_or_begin(const void *bytes, TensorMap &map) {
  const auto *byte = static_cast<const uint8_t *>(bytes);
  if (std::any_of(byte, byte + tensor_map_bytes, [](uint8_t value) { return value != 0; })) return decode(bytes, map);
  map = {};
  map.rank = 1;
  map.set = 0;
  return true;
}

uint32_t swizzled(uint32_t address, TensorSwizzle swizzle) {
  uint32_t row = address >> 7;  // of 128 bytes
  switch (swizzle) {
    case TensorSwizzle::none:
      return address;
    case TensorSwizzle::span32:
      return address ^ (row & 1) << 4;
    case TensorSwizzle::span64:
      return address ^ (row & 3) << 4;
    case TensorSwizzle::span128:
      return address ^ (row & 7) << 4;
    case TensorSwizzle::span128_atom32:
      return address ^ (row & 3) << 5;
    case TensorSwizzle::span128_atom32_flip8:
      return address ^ (row & 3) << 5 ^ (row & 1) << 3;
    case TensorSwizzle::span128_atom64:
      return address ^ (row & 1) << 6;
  }
  return address;
}

}  // namespace fa::emu

// Tensor maps: how a tensor in global memory and a box of it in shared memory are described to cp.async.bulk.tensor
// (PTX ISA 5.5 "Tensors", CUDA driver API "Tensor Map Object Management"). NVIDIA's 128 bytes are undocumented; these
// are our own. Maps are those of encode_*, those that tensormap.replace made of zeros, and those that programs write
// by themselves (tensor_map_bits.h).
//
// Some programs write to NVIDIA's bytes all the same, so nothing is kept where they do: of the 16 words of 64 bits,
//   word 1   CUTLASS (copy_traits_sm90_tma.hpp, copy_traits_sm90_im2col.hpp) and Triton (its driver.c) clear bit 21 for
//            drivers up to 13.10 where the tensor has less than 128 KB: a fault of those drivers' encoder on Blackwell.
// No other writes were found in CUTLASS, Triton, FlashAttention and FlashInfer, which change maps by tensormap.replace.
#pragma once

#include <cstdint>
#include <string>

namespace fa::emu {

constexpr uint32_t tensor_map_bytes = 128;
constexpr uint32_t max_dimensions = 5;

/// Numbers are those of CUtensorMapDataType.
enum class TensorType : uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
  u4_align8,   // sixteen 4-bit elements in 8 bytes, as dense in shared memory
  u4_align16,  // ... in 8 of 16 bytes of shared memory
  u6_align16,  // sixteen 6-bit elements in 12 of 16 bytes of shared memory
};
enum class TensorInterleave : uint8_t { none, bytes16, bytes32 };
/// Numbers are those of CUtensorMapSwizzle; atom: bytes that move as a whole (16 where not named).
enum class TensorSwizzle : uint8_t {
  none,
  span32,
  span64,
  span128,
  span128_atom32,
  span128_atom32_flip8,
  span128_atom64
};
enum class TensorFill : uint8_t { zeros, nan };

/// The parts of a map that have to be set, a bit each, those with dimensions one a dimension (at + d). Zeros mean
/// something in all others: one dimension, elements of u8, no interleaving, no swizzling, zeros outside of the tensor.
namespace map_part {
constexpr uint32_t optional = 0, address = 1;
constexpr uint32_t box = 1 << 1, extent = 1 << 6, stride = 1 << 11, step = 1 << 15;
constexpr uint32_t all = (1 << 20) - 1;
}  // namespace map_part

struct TensorMap {
  uint32_t set = map_part::all;  // of zeroed memory, which tensormap.replace makes a map of, fewer
  TensorType type = TensorType::u8;
  uint32_t rank = 0;
  uint64_t address = 0;
  uint64_t extent[max_dimensions] = {1, 1, 1, 1, 1};  // elements, innermost first
  uint64_t stride[max_dimensions] = {};               // bytes; [0] is one element's
  uint32_t box[max_dimensions] = {1, 1, 1, 1, 1};     // tiles: elements that a box spans
  uint32_t step[max_dimensions] = {1, 1, 1, 1, 1};    // of which every step-th is copied
  TensorInterleave interleave = TensorInterleave::none;
  TensorSwizzle swizzle = TensorSwizzle::none;
  uint8_t atomicity = 0;  // as tensormap.replace has it; part of the swizzle, where that spans 128 bytes
  uint8_t promotion = 0;  // CUtensorMapL2promotion; no effect
  TensorFill fill = TensorFill::zeros;
  // im2col maps, whose box is channels x pixels: corners of the pixels' box in the dimensions 1 to rank - 2.
  bool im2col = false;
  int32_t lower[3] = {}, upper[3] = {};
  uint32_t channels = 0, pixels = 0;

  uint32_t element_bytes() const { return static_cast<uint32_t>(stride[0]); }  // where elements are no part of a byte

  /// Elements of 4 and 6 bits are adjacent in global memory, and in shared memory so, or sixteen of them in 16
  /// bytes.
  bool packed() const { return type >= TensorType::u4_align8; }
  bool has_gaps() const { return type >= TensorType::u4_align16; }
  /// A tensor's width, and the first element of a box, are multiples of this.
  uint32_t granularity() const { return has_gaps() ? 128 : packed() ? 2 : 1; }
  /// Bytes of this many consecutive elements.
  uint64_t global_bytes(uint64_t elements) const;
  uint64_t shared_bytes(uint64_t elements) const;
  /// Where in a row of shared memory a byte goes that has this place among the row's bytes of global memory.
  uint32_t shared_offset(uint32_t byte) const;
};

/// cuTensorMapEncodeTiled's arguments, in its order: checks them all and writes 128 bytes to out. Returns the error
/// (the driver's status is CUDA_ERROR_INVALID_VALUE), or nothing. extents: rank; strides: rank - 1, in bytes.
std::string encode_tiled(void *out, uint32_t type, uint32_t rank, const void *address, const uint64_t *extents,
                         const uint64_t *strides, const uint32_t *box, const uint32_t *steps, uint32_t interleave,
                         uint32_t swizzle, uint32_t promotion, uint32_t fill);

/// The same for cuTensorMapEncodeIm2col; lower, upper: rank - 2.
std::string encode_im2col(void *out, uint32_t type, uint32_t rank, const void *address, const uint64_t *extents,
                          const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                          uint32_t pixels, const uint32_t *steps, uint32_t interleave, uint32_t swizzle,
                          uint32_t promotion, uint32_t fill);

/// cuTensorMapReplaceAddress: the error, or nothing.
std::string replace_address(void *map, const void *address);

/// Reads 128 bytes; false where neither encode_* nor tensormap.replace wrote them, and they are no map in NVIDIA's bits
/// (tensor_map_bits.h).
bool decode(const void *bytes, TensorMap &map);

/// A map that nothing has been set of, where the 128 bytes are zeros; else as decode.
bool decode_or_begin(const void *bytes, TensorMap &map);

/// Writes a map's 128 bytes without looking at it.
void encode(const TensorMap &map, void *bytes);

/// A property that no map may have or lack, or nothing.
std::string wrong_with(const TensorMap &map);

/// Where a byte goes that without swizzling would be at this shared address.
uint32_t swizzled(uint32_t address, TensorSwizzle swizzle);

}  // namespace fa::emu

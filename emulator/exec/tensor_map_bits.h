// Tensor maps that programs write themselves, in the bits that GPUs read: CuTe DSL's host code does so, without
// cuTensorMapEncodeTiled. NVIDIA does not document these bits. They are taken from the maps that CuTe DSL 4.8
// makes for sm_100a, of tensors of 3 and 4 dimensions and every type and swizzle that it has, and nothing else is taken
// for one:
//
//   word 0            address
//   word 1, 0 to 3    2
//           4 to 6    rank - 1
//           7 to 10   element: u8, u16, u32, s32, u64, s64, f16, f32, f32 ftz, f64, bf16
//           13, 14    swizzle: none, or a span of 32, 64 or 128 bytes
//           16        with f32: tf32
//           18        1
//           21        a small tensor (see tensor_map.h); any
//   word 1, 32 on     strides of dimension 1 to 4, in 16 bytes, 32 bits each
//   word 4            extents - 1, 32 bits each
//   word 6, 56 on     extents of the box - 1, 8 bits each
//
// The second 64 bytes hold whatever was there.
#pragma once

#include "exec/tensor_map.h"

namespace fa::emu {

/// False where these 128 bytes are no such map.
bool decode_bits(const void *bytes, TensorMap &map);

}  // namespace fa::emu

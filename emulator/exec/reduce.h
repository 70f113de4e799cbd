// Reductions of bulk copies: memory = op(memory, data), element by element, each element atomically.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/tensor_map.h"
#include "ptx/module.h"

namespace fa::emu {

enum class Reduction : uint8_t { none, add, min, max, inc, dec, bit_and, bit_or, bit_xor };

/// Reduces this many bytes; to and data need the alignment of the elements.
using Reduce = void (*)(uint8_t *to, const uint8_t *data, size_t bytes);

/// The one that the opcode names, or none.
Reduction reduction_of(const ptx::Opcode &opcode);
/// Null where the type has no such reduction.
Reduce reduce_of(Reduction reduction, ptx::Type type);
/// The PTX type of a tensor's elements.
ptx::Type ptx_type(TensorType type);

}  // namespace fa::emu

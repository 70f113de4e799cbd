// The box of a tensor that one cp.async.bulk.tensor copies (PTX ISA 5.5.3 to 5.5.6): its rows in global memory, clipped
// to the tensor, and where they are in shared memory.
#pragma once

#include <cstdint>

#include "exec/tensor_map.h"

namespace fa::emu {

/// The part of a row that is inside of the tensor: this many bytes from `first` on; nothing if there are 0.
struct TensorRow {
  uint64_t address = 0;  // of the first of them, in global memory
  uint32_t first = 0;
  uint32_t bytes = 0;
};

class TensorBox {
 public:
  TensorMap map;
  int32_t at[max_dimensions] = {};  // coordinates, innermost first
  uint16_t offset[3] = {};          // of im2col
  bool four_rows = false;           // .tile::gather4 and scatter4
  int32_t row_at[4] = {};           // their rows; at[0]: the column

  uint32_t row_elements() const { return map.im2col ? map.channels : map.box[0]; }
  uint32_t row_bytes() const { return static_cast<uint32_t>(map.global_bytes(row_elements())); }
  /// Rows in shared memory are that far apart: a swizzle's span is kept whole.
  uint32_t pitch() const;
  uint32_t rows() const;
  uint32_t bytes() const { return rows() * row_bytes(); }  // that are copied and count for an mbarrier
  uint32_t shared_bytes() const { return rows() * pitch(); }

  /// f(number, TensorRow) for every row in the order that they have in shared memory.
  template <class F>
  void each_row(F f) const {
    uint32_t count = rows();
    Walk walk = begin();
    for (uint32_t number = 0; number < count; number++, advance(walk)) f(number, row(walk));
  }

  /// The box as it is in shared memory at an address, to or from dense rows. shared: its bytes at that address.
  void from_shared(uint32_t address, const uint8_t *shared, uint8_t *dense) const;
  void to_shared(uint32_t address, const uint8_t *dense, uint8_t *shared) const;

 private:
  /// Where the walk over rows is: coordinates of dimensions 1 to 4, and steps made in each.
  struct Walk {
    int64_t at[max_dimensions] = {};
    uint32_t steps[max_dimensions] = {};
  };
  uint32_t steps_of(uint32_t dimension) const;
  Walk begin() const;
  void advance(Walk &walk) const;
  TensorRow row(const Walk &walk) const;
  template <class F>
  void each_chunk(uint32_t address, F f) const;
};

}  // namespace fa::emu

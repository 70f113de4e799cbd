// Predicates of how a tensor's rows lie in memory. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>

#include "common/params.h"

namespace fa::kernels {

/// Rows consist of whole aligned chunks of 16 bytes; an absent tensor has none.
inline bool is_aligned(const View &view, int64_t dim, int64_t element) {
  const int64_t strides = view.stride[0] | view.stride[1] | view.stride[2];
  return view.data == nullptr || (reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && strides % 16 == 0 &&
                                  dim * element % 16 == 0 && view.stride[3] == element);
}

/// Rows are closer together than longest_row.
constexpr bool is_near(const View &rows) {
  return -longest_row < rows.stride[1] && rows.stride[1] < longest_row;
}

}  // namespace fa::kernels

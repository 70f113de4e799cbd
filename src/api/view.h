// From the caller's fa_tensor to a View: one rule per tensor for its shape and type.
#pragma once

#include <array>

#include "api/refuse.h"

namespace fa::api {

/// The legal lengths of one dimension of a tensor, and the meaning of a length.
struct Dim {
  int64_t low;
  int64_t high;
  const char *meaning;
  bool or_one = false;  // 1 is legal too, and repeats
};

using Shape = std::array<Dim, 4>;

constexpr Dim any(const char *meaning) {
  return {0, max_length, meaning};
}
constexpr Dim exactly(int64_t length, const char *meaning) {
  return {length, length, meaning};
}
constexpr Dim repeatable(int64_t low, int64_t high, const char *meaning) {
  return {low, high, meaning, true};
}

/// Which types a tensor may have.
struct Types {
  fa_dtype usual;  // the meaning of FA_DTYPE_DEFAULT
  DtypeSet legal;
  const char *why;  // where that stems from, for the text; may be ""
};

constexpr Types just(fa_dtype dtype, const char *why = "") {
  return {dtype, only(dtype), why};
}

/// The use of a tensor.
struct Use {
  bool written;  // no stride may repeat elements
  bool data;     // its data is looked at: not NULL unless it has no elements
};

/// Checks the shape and the type of one tensor of a call and stores it in *view, without data when it has no elements.
/// False after a refusal.
bool read_tensor(const char *name, const fa_tensor &tensor, Use use, const Types &types, const Shape &shape,
                 View *view);

/// Checks that the memory which owner and member name ("args.q", ".data") is aligned to its elements' bytes.
inline bool check_aligned(const char *owner, const char *member, const void *data, int64_t element) {
  if ((reinterpret_cast<uintptr_t>(data) & static_cast<uintptr_t>(element - 1)) == 0) [[likely]]
    return true;
  return refuse("%s%s is %p; expected a multiple of its elements' %lld bytes", owner, member, data, ll{element});
}

}  // namespace fa::api

// From the caller's fa_tensor to a View: one rule per tensor says what its shape and type must be.
#pragma once

#include "api/refuse.h"

namespace fa::api {

/// What one dimension of a tensor must be.
struct Dim {
  int64_t low = 0;
  int64_t high = max_length;
  const char *what = "a length below 2^31";
  bool or_one = false;  // 1 is legal too, and repeats
};

inline Dim exactly(int64_t length, const char *what) {
  return {length, length, what, false};
}
inline Dim repeatable(int64_t low, int64_t high, const char *what) {
  return {low, high, what, true};
}

/// What is asked of a tensor's data.
enum class Data {
  required,    // not NULL unless the tensor has no elements
  optional,    // NULL: the tensor is absent, and its other fields are not looked at
  looked_past  // anything: only the shape matters
};

/// What a tensor of fa_args must be.
struct TensorRule {
  const char *name;  // "args.q"
  Data data;
  bool written;          // no stride may repeat elements
  fa_dtype dtype;        // that FA_DTYPE_DEFAULT stands for
  DtypeSet dtypes;       // that are legal
  const char *why_type;  // where that stems from, for the text; may be ""
  Dim dim[4];
};

/// Checks a tensor against its rule and stores it in *view; the view of a tensor that is absent or required and without
/// elements has no data. False after a refusal.
bool read_tensor(const TensorRule &rule, const fa_tensor &tensor, View *view);

/// Checks that data is aligned to its elements' bytes.
bool check_aligned(const char *name, const void *data, int64_t element);

}  // namespace fa::api

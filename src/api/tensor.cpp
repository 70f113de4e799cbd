// fa_tensor_init: a contiguous view.
#include <fa.h>

void fa_tensor_init(fa_tensor *tensor, void *data, fa_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
  if (!tensor) return;
  *tensor = {data, {d0, d1, d2, d3}, {0, 0, 0, 1}, dtype, 0};
  for (int i = 2; i >= 0; --i) {
    // A stride too large for its type cannot be that of real memory: the largest one is refused when it is used.
    if (__builtin_mul_overflow(tensor->shape[i + 1], tensor->stride[i + 1], &tensor->stride[i])) {
      tensor->stride[i] = INT64_MAX;
    }
  }
}

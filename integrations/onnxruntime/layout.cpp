#include "layout.h"

#include <cstring>

namespace fa_ort {
namespace {

// Copies rows of a tensor into rows first .. of another; the last dimension of both is contiguous.
void copy(Call *call, const fa_tensor &from, const fa_tensor &to, int64_t first) {
  const int64_t element = bytes_of(to.dtype);
  call->parallel(from.shape[0] * from.shape[2], [&](int64_t i) {
    const int64_t b = i / from.shape[2], h = i % from.shape[2];
    const char *source = static_cast<const char *>(from.data) + (b * from.stride[0] + h * from.stride[2]) * element;
    char *target =
        static_cast<char *>(to.data) + (b * to.stride[0] + h * to.stride[2] + first * to.stride[1]) * element;
    for (int64_t j = 0; j < from.shape[1]; ++j) {
      std::memcpy(target + j * to.stride[1] * element, source + j * from.stride[1] * element,
                  size_t(from.shape[3] * element));
    }
  });
}

}  // namespace

fa_tensor heads_first(const Tensor &t) {
  const int64_t h = t.shape[1], s = t.shape[2], d = t.shape[3];
  return fa::strided(fa::tensor(t.data, t.dtype(), t.shape[0], s, h, d), h * s * d, d, s * d, 1);
}

fa_tensor heads_of(const char *name, const Tensor &t, int64_t heads) {
  if (t.shape.size() == 4) return heads_first(t);
  expect_shape(name, t, {-1, -1, -1});
  if (heads < 1 || t.shape[2] % heads != 0) {
    throw BadInput(std::string(name) + " has shape " + text_of(t.shape) + "; expected a last dimension that " +
                   std::to_string(heads) + " heads divide");
  }
  return fa::tensor(t.data, t.dtype(), t.shape[0], t.shape[1], heads, t.shape[2] / heads);
}

fa_tensor joined(Call *call, size_t index, const Tensor &past, const fa_tensor &fresh) {
  const int64_t old = past ? past.shape[2] : 0;
  const std::vector<int64_t> shape = {fresh.shape[0], fresh.shape[2], old + fresh.shape[1], fresh.shape[3]};
  Tensor present = call->output(index, shape);
  if (!present && !past) return fresh;
  if (!present) {
    present = past;
    present.shape = shape;
    present.data = call->scratch().take(size_t(present.elements() * bytes_of(fresh.dtype)));
  }
  const fa_tensor result = heads_first(present);
  if (present.elements() == 0) return result;
  if (past && past.data != present.data) copy(call, heads_first(past), result, 0);
  copy(call, fresh, result, old);
  return result;
}

}  // namespace fa_ort

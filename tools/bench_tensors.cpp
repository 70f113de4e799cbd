#include "bench_tensors.h"

#include <cstring>
#include <memory>

#include "reference/number.h"
#include "reference/random.h"
#include "library.h"

namespace fa::tool {

Array random_array(fa_dtype dtype, std::vector<int64_t> shape, uint64_t seed) {
  Array array = make_array(npy_type_of(dtype), std::move(shape));
  const auto step = static_cast<size_t>(reference::dtype_bytes(dtype));
  const size_t period = step * 65521;  // a prime: rows do not repeat
  for (size_t at = 0; at < array.bytes.size(); at += step) {
    if (at < period) {
      reference::store(&array.bytes[at], dtype, reference::normal(reference::hash(seed + at)));
    } else {
      std::memcpy(&array.bytes[at], &array.bytes[at - period], step);
    }
  }
  return array;
}

fa_tensor tensor_of(Array *array, fa_dtype dtype) {
  fa_tensor tensor = {};
  const std::vector<int64_t> &s = array->shape;
  fa_tensor_init(&tensor, array->bytes.data(), dtype, s[0], s[1], s[2], s[3]);
  return tensor;
}

void *BenchWorkspace::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  memory_.resize(bytes + 256);
  void *place = memory_.data();
  size_t room = memory_.size();
  return std::align(256, bytes, place, room);
}

}  // namespace fa::tool

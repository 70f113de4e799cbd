// The rules that every tensor obeys: lengths, strides and extents that fit 64 bits, a type of the set, aligned data.
#include "api/view.h"

namespace fa::api {
namespace {

using ll = long long;

/// No memory holds more: counts of rows, parts and bytes derived from this many cannot overflow.
constexpr int64_t max_elements = int64_t{1} << 48;

bool check_dim(const TensorRule &rule, const fa_tensor &t, int i) {
  const Dim &dim = rule.dim[i];
  const int64_t length = t.shape[i];
  if ((length >= dim.low && length <= dim.high) || (dim.or_one && length == 1)) [[likely]]
    return true;
  const char *one = dim.or_one && dim.low != 1 ? "1 or " : "";
  if (dim.low == dim.high) {
    return refuse("%s.shape[%d] is %lld; expected %s%lld (%s)", rule.name, i, ll{length}, one, ll{dim.low}, dim.what);
  }
  return refuse("%s.shape[%d] is %lld; expected %s%lld .. %lld (%s)", rule.name, i, ll{length}, one, ll{dim.low},
                ll{dim.high}, dim.what);
}

/// The stride of dimension i in bytes, 0 where it is never taken. Adds the way to the dimension's last element to
/// *reach of the same sign. False on overflow.
bool byte_stride(const fa_tensor &t, int i, int64_t element, int64_t reach[2], int64_t *stride) {
  *stride = 0;
  if (t.shape[i] < 2) return true;
  int64_t way;
  int64_t &total = reach[t.stride[i] < 0];
  return !__builtin_mul_overflow(t.stride[i], element, stride) &&
         !__builtin_mul_overflow(*stride, t.shape[i] - 1, &way) && !__builtin_add_overflow(total, way, &total);
}

bool check_layout(const TensorRule &rule, const fa_tensor &t, int64_t element, View *view) {
  int64_t reach[2] = {element, 0};
  int64_t count = 1;
  bool counted = true;
  for (int i = 0; i < 4; ++i) {
    if (rule.written && t.shape[i] > 1 && t.stride[i] == 0) {
      return refuse(
          "%s.stride[%d] is 0, which repeats elements, but this tensor is written: give each element of "
          "shape[%d] = %lld its own place",
          rule.name, i, i, ll{t.shape[i]});
    }
    if (!byte_stride(t, i, element, reach, &view->stride[i])) {
      return refuse("%s.stride[%d] is %lld: with shape[%d] = %lld the tensor reaches beyond 2^63 bytes", rule.name, i,
                    ll{t.stride[i]}, i, ll{t.shape[i]});
    }
    counted = !__builtin_mul_overflow(count, t.shape[i], &count) && counted;
  }
  if (!counted || count > max_elements) {
    return refuse("%s.shape is (%lld, %lld, %lld, %lld); expected at most 2^48 elements in all", rule.name,
                  ll{t.shape[0]}, ll{t.shape[1]}, ll{t.shape[2]}, ll{t.shape[3]});
  }
  return true;
}

}  // namespace

bool check_aligned(const char *name, const void *data, int64_t element) {
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(element) == 0) [[likely]]
    return true;
  return refuse("%s is %p; expected a multiple of its elements' %lld bytes", name, data, ll{element});
}

bool read_tensor(const TensorRule &rule, const fa_tensor &t, View *view) {
  if (rule.data == Data::optional && !t.data) return true;
  for (int i = 0; i < 4; ++i) {
    if (!check_dim(rule, t, i)) return false;
  }
  if (!resolve_dtype(rule.name, "dtype", t.dtype, rule.dtype, rule.dtypes, rule.why_type, &view->dtype)) return false;
  if (t.reserved != 0) return refuse("%s.reserved is %d; expected 0", rule.name, t.reserved);

  const bool empty = t.shape[0] == 0 || t.shape[1] == 0 || t.shape[2] == 0 || t.shape[3] == 0;
  if (empty) {
    if (rule.data == Data::optional) view->data = static_cast<char *>(t.data);
    return true;
  }
  const int64_t element = dtype_bytes(view->dtype);
  if (!check_layout(rule, t, element, view)) return false;
  if (rule.data == Data::looked_past) return true;
  if (!t.data) {
    return refuse(
        "%s.data is NULL; expected the address of its first element, as the shape is (%lld, %lld, %lld, %lld)",
        rule.name, ll{t.shape[0]}, ll{t.shape[1]}, ll{t.shape[2]}, ll{t.shape[3]});
  }
  view->data = static_cast<char *>(t.data);
  return check_aligned(rule.name, t.data, element);
}

}  // namespace fa::api

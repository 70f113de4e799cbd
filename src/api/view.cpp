// The rules that every tensor obeys: lengths, strides and extents that fit 64 bits, a type of the set, aligned data.
#include "api/view.h"

#include "api/distinct.h"
#include "core/dtype.h"

namespace fa::api {
namespace {

/// No memory holds more: counts of rows, parts and bytes derived from this many cannot overflow.
constexpr int64_t max_elements = int64_t{1} << 48;

bool check_dim(const char *name, const fa_tensor &t, int i, const Dim &dim) {
  const int64_t length = t.shape[i];
  if ((length >= dim.low && length <= dim.high) || (dim.or_one && length == 1)) [[likely]]
    return true;
  const char *one = dim.or_one && dim.low != 1 ? "1 or " : "";
  if (dim.low == dim.high) {
    return refuse("%s.shape[%d] is %lld; expected %s%lld (%s)", name, i, ll{length}, one, ll{dim.low}, dim.meaning);
  }
  return refuse("%s.shape[%d] is %lld; expected %s%lld .. %lld (%s)", name, i, ll{length}, one, ll{dim.low},
                ll{dim.high}, dim.meaning);
}

/// Checks a tensor of a packed type: rows have no gaps, and each begins with a whole unit.
bool check_packed(const char *name, const fa_tensor &t, fa_dtype dtype) {
  const int64_t elements = unit_of(dtype).elements;
  if (t.stride[3] != 1)
    return refuse("%s.stride[3] is %lld; expected 1, as elements of %s have no addresses of their own", name,
                  ll{t.stride[3]}, dtype_name(dtype));
  for (int i = 0; i < 3; ++i) {
    if (t.shape[i] < 2 || t.stride[i] % elements == 0) continue;
    return refuse("%s.stride[%d] is %lld; expected a multiple of %lld, the elements of %s that are stored together",
                  name, i, ll{t.stride[i]}, ll{elements}, dtype_name(dtype));
  }
  return true;
}

/// Checks that the strides stay within 64 bits, and stores them in bytes; 0 where a dimension is never stepped along.
bool read_strides(const char *name, const fa_tensor &t, Use use, View *view) {
  const Unit unit = unit_of(view->dtype);
  const bool packed = unit.elements > 1;
  if (packed && !check_packed(name, t, view->dtype)) return false;
  // Bytes from the first element upwards and downwards.
  int64_t reach[2] = {packed ? row_bytes(view->dtype, t.shape[3]) : unit.bytes, 0};
  for (int i = 0; i < (packed ? 3 : 4); ++i) {
    if (t.shape[i] < 2) continue;
    if (use.written && t.stride[i] == 0) {
      return refuse(
          "%s.stride[%d] is 0, which repeats elements; expected a separate address for each of the %lld, as "
          "they are written",
          name, i, ll{t.shape[i]});
    }
    int64_t &total = reach[t.stride[i] < 0];
    int64_t way;
    if (__builtin_mul_overflow(t.stride[i] / unit.elements, unit.bytes, &view->stride[i]) ||
        __builtin_mul_overflow(view->stride[i], t.shape[i] - 1, &way) || __builtin_add_overflow(total, way, &total)) {
      return refuse("%s.stride[%d] is %lld; expected one that keeps the %lld elements within 2^63 bytes", name, i,
                    ll{t.stride[i]}, ll{t.shape[i]});
    }
  }
  return true;
}

bool check_count(const char *name, const fa_tensor &t) {
  int64_t count = 1;
  bool fits = true;
  for (const int64_t length : t.shape) fits = fits && !__builtin_mul_overflow(count, length, &count);
  if (fits && count <= max_elements) [[likely]]
    return true;
  return refuse("%s.shape is (%lld, %lld, %lld, %lld); expected at most 2^48 elements in all", name, ll{t.shape[0]},
                ll{t.shape[1]}, ll{t.shape[2]}, ll{t.shape[3]});
}

bool check_data(const char *name, const fa_tensor &t, int64_t element) {
  if (!t.data) {
    return refuse("%s.data is NULL; expected the address of its first element: it has (%lld, %lld, %lld, %lld) of them",
                  name, ll{t.shape[0]}, ll{t.shape[1]}, ll{t.shape[2]}, ll{t.shape[3]});
  }
  return check_aligned(name, ".data", t.data, element);
}

}  // namespace

bool read_tensor(const char *name, const fa_tensor &t, Use use, const Types &types, const Shape &shape, View *view) {
  for (int i = 0; i < 4; ++i) {
    if (!check_dim(name, t, i, shape[i])) return false;
  }
  if (!resolve_dtype(name, "dtype", t.dtype, types.usual, types.legal, types.why, &view->dtype)) return false;
  if (t.reserved != 0) return refuse("%s.reserved is %d; expected 0", name, t.reserved);
  if (t.shape[0] == 0 || t.shape[1] == 0 || t.shape[2] == 0 || t.shape[3] == 0) return true;

  if (!check_count(name, t) || !read_strides(name, t, use, view)) return false;
  if (use.written && !check_distinct(name, t)) return false;
  if (!use.data) return true;
  view->data = static_cast<char *>(t.data);
  return check_data(name, t, alignment_of(view->dtype));
}

}  // namespace fa::api

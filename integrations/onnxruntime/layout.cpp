#include "layout.h"

#include <algorithm>
#include <cstring>

namespace fa_ort {
namespace {

// Decodes copy a head of the cache and attend it while it is in the processor's cache, where there are enough heads
// for the session's threads, whose number is not known here.
constexpr int64_t max_rows_of_decodes = 4, min_parts = 8;

// The part of a sequence and a key/value head; dimensions of length 1 are repeated.
fa_tensor part(fa_tensor t, int dimension_of_heads, int64_t b, int64_t head, int64_t heads) {
  if (!t.data) return t;
  int64_t &of_heads = t.shape[dimension_of_heads], group = std::max<int64_t>(of_heads / heads, 1);
  const int64_t first =
      (t.shape[0] > 1 ? b * t.stride[0] : 0) + (of_heads > 1 ? head * group * t.stride[dimension_of_heads] : 0);
  t.data = static_cast<char *>(t.data) + first * bytes_of(t.dtype);
  t.shape[0] = 1;
  of_heads = group;
  return t;
}

void copy_head(const fa_tensor &from, const fa_tensor &to, int64_t first, int64_t b, int64_t h) {
  const int64_t element = bytes_of(to.dtype), width = from.shape[3];
  const char *source = static_cast<const char *>(from.data) + (b * from.stride[0] + h * from.stride[2]) * element;
  char *target = static_cast<char *>(to.data) + (b * to.stride[0] + h * to.stride[2] + first * to.stride[1]) * element;
  if (from.stride[1] == width && to.stride[1] == width) {
    std::memcpy(target, source, size_t(from.shape[1] * width * element));
    return;
  }
  for (int64_t j = 0; j < from.shape[1]; ++j) {
    std::memcpy(target + j * to.stride[1] * element, source + j * from.stride[1] * element, size_t(width * element));
  }
}

void copy_head(const Joined &joined, int64_t b, int64_t h) {
  if (joined.copies_past) copy_head(joined.past, joined.all, 0, b, h);
  if (joined.copies_fresh) copy_head(joined.fresh, joined.all, joined.all.shape[1] - joined.fresh.shape[1], b, h);
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

void expect_same_lengths(const fa_tensor &q, const fa_tensor &k, const fa_tensor &v) {
  const std::vector<int64_t> of_k(k.shape, k.shape + 3), of_v(v.shape, v.shape + 3);
  if (q.shape[0] != k.shape[0]) {
    throw BadInput("key has batch " + std::to_string(k.shape[0]) + "; expected " + std::to_string(q.shape[0]) +
                   ", which query has");
  }
  if (of_v != of_k) {
    throw BadInput("value has (batch, rows, heads) = " + text_of(of_v) + "; expected " + text_of(of_k) +
                   ", which key has");
  }
}

Joined join(Call *call, size_t index, const Tensor &past, const fa_tensor &fresh) {
  const int64_t old = past ? past.shape[2] : 0;
  const std::vector<int64_t> shape = {fresh.shape[0], fresh.shape[2], old + fresh.shape[1], fresh.shape[3]};
  Tensor present = call->output(index, shape);
  Joined result;
  result.all = result.fresh = fresh;
  if (!present && !past) return result;
  if (!present) {
    present = past;
    present.shape = shape;
    present.data = call->scratch().take(size_t(present.elements() * bytes_of(fresh.dtype)));
  }
  result.all = heads_first(present);
  if (past) result.past = heads_first(past);
  result.copies_past = past && past.data != present.data && past.elements() > 0;
  result.copies_fresh = fresh.shape[0] * fresh.shape[1] * fresh.shape[2] * fresh.shape[3] > 0;
  return result;
}

void forward_over(Call *call, const fa::Desc &desc, const fa::ForwardArgs &args, const Joined &k, const Joined &v) {
  const int64_t heads = k.all.shape[2], parts = k.all.shape[0] * heads;
  const auto each = [&](const auto &task) {
    call->parallel(parts, [&](int64_t i) {
      copy_head(k, i / heads, i % heads);
      copy_head(v, i / heads, i % heads);
      task(i, i / heads, i % heads);
    });
  };
  const int64_t q_heads = args.q.shape[2];
  const bool divides = parts > 0 && q_heads > 0 && q_heads % heads == 0;  // else the whole call is refused
  if (!divides || args.q.shape[1] > max_rows_of_decodes || parts < min_parts || !(k.copies_past && v.copies_past)) {
    if (k.copies_past || v.copies_past || k.copies_fresh || v.copies_fresh) each([](int64_t, int64_t, int64_t) {});
    call->forward(desc, args);
    return;
  }
  std::vector<fa::ForwardArgs> of_parts(parts, args);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t b = i / heads, head = i % heads;
    fa::ForwardArgs &own = of_parts[i];
    for (fa_tensor *t : {&own.q, &own.k, &own.v, &own.out}) *t = part(*t, 2, b, head, heads);
    for (fa_tensor *t : {&own.bias, &own.mask}) *t = part(*t, 1, b, head, heads);
    if (own.q_offset) own.q_offset += b;
    if (own.seqused_k) own.seqused_k += b;
  }
  call->forward_parts(desc, of_parts, each);
}

}  // namespace fa_ort

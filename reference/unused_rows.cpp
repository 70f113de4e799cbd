// Rows that a call must not read: NaN, infinity and wrong page numbers outside all sequences.
#include <algorithm>
#include <climits>
#include <limits>

#include "reference/call.h"
#include "reference/codes.h"
#include "reference/instance.h"

namespace reference {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

void Instance::poison_unused() const {
  const Call call(desc, args);
  std::vector<char> live_q(size_t(q.shape()[0] * q.shape()[1])), live_k(size_t(k.shape()[0] * k.shape()[1]));
  std::vector<char> live_table(size_t(block_table.shape()[0] * block_table.shape()[1]));
  for (const Sequence &s : call.sequences) {
    for (int64_t i = 0; i < s.queries; ++i) live_q[size_t(s.q_batch * q.shape()[1] + s.q_row + i)] = 1;
    for (int64_t j = 0; j < s.keys; ++j) {
      int64_t batch = s.k_batch, row = s.k_row + j;
      if (c.page) {
        live_table[size_t(s.index * block_table.shape()[1] + row / c.page)] = 1;
        batch = int64_t(block_table.get(s.index, row / c.page, 0, 0));
        row %= c.page;
      }
      live_k[size_t(batch * k.shape()[1] + row)] = 1;
    }
  }
  const auto poison = [](const Tensor &t, const std::vector<char> &live, double poison_even, double poison_odd) {
    if (std::find(live.begin(), live.end(), 0) == live.end()) return;
    // A stride of 0 makes live and unused elements the same: live ones are written again afterwards.
    std::vector<double> values;
    t.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) { values.push_back(t.get(i, j, m, n)); });
    t.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) {
      if (!live[size_t(i * t.shape()[1] + j)]) t.set(i, j, m, n, j % 2 ? poison_odd : poison_even);
    });
    t.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t index) {
      if (live[size_t(i * t.shape()[1] + j)]) t.set(i, j, m, n, values[size_t(index)]);
    });
  };
  poison(q, live_q, nan, infinity);
  if (!codes_of(k.dtype())) poison(k, live_k, nan, infinity);
  if (!codes_of(v.dtype())) poison(v, live_k, infinity, nan);
  if (k_rope) poison(k_rope, live_k, nan, infinity);
  poison_rows(live_k);
  // Positions that leftpad_k leaves out are before the used ones; entries before a used page are looked up or not as
  // the engine likes, entries after are not.
  if (c.page) {
    for (int64_t b = 0; b < block_table.shape()[0]; ++b) {
      for (int64_t page = block_table.shape()[1] - 1; page >= 0; --page) {
        if (live_table[size_t(b * block_table.shape()[1] + page)]) break;
        block_table.set(b, page, 0, 0, page % 2 ? INT_MAX : -1);
      }
    }
  }
}

/// Fills unused rows of quantised tensors, and scales and zeros of unused rows alone, with one bits: NaN in types that
/// have it.
void Instance::poison_rows(const std::vector<char> &live_k) const {
  const auto index = [](const Tensor &t, size_t axis, int64_t at) { return t.shape()[axis] == 1 ? 0 : at; };
  const auto fill = [&](const Tensor &t) {
    const auto row_of = [&](int64_t i, int64_t j, int64_t h) {
      return t.at(index(t, 0, i), index(t, 1, j), index(t, 2, h), 0);
    };
    const auto bytes = size_t(row_bytes(t.dtype(), t.shape()[3]));
    if (t.view().stride[3] != 1) return;  // rows lie within each other
    const auto each_row = [&](bool live, auto f) {
      for (int64_t i = 0; i < k.shape()[0]; ++i)
        for (int64_t j = 0; j < k.shape()[1]; ++j)
          for (int64_t h = 0; h < k.shape()[2]; ++h)
            if (bool(live_k[size_t(i * k.shape()[1] + j)]) == live) f(row_of(i, j, h));
    };
    std::vector<char> kept;
    each_row(true, [&](const char *row) { kept.insert(kept.end(), row, row + bytes); });
    each_row(false, [&](char *row) { std::fill_n(row, bytes, char(0xff)); });
    size_t at = 0;
    each_row(true, [&](char *row) {
      std::copy_n(kept.data() + at, bytes, row);
      at += bytes;
    });
  };
  for (const Tensor *t : {&k, &v})
    if (codes_of(t->dtype())) fill(*t);
  for (const Tensor *t : {&k_scale, &v_scale, &k_zero, &v_zero})
    if (*t) fill(*t);
}

}  // namespace reference

#include "cpu/token_box.h"

#include <cstring>

#include "core/dtype.h"
#include "cpu/element.h"

namespace fa::cpu {
namespace {

/// Joins rows that are adjacent in memory into fewer and longer ones.
void join_rows(TokenBox *box) {
  const int64_t from_bytes = dtype_bytes(box->from_dtype), to_bytes = dtype_bytes(box->to_dtype);
  if (box->dim > 1 && (box->from_elem != from_bytes || box->to_elem != to_bytes)) return;
  box->from_elem = from_bytes, box->to_elem = to_bytes;
  const auto join = [&](int64_t *count, int64_t from_step, int64_t to_step) {
    if (*count > 1 && (from_step != box->dim * from_bytes || to_step != box->dim * to_bytes)) return;
    box->dim *= *count;
    *count = 1;
  };
  join(&box->heads, box->from_head, box->to_head);
  join(&box->tokens, box->from_token, box->to_token);
}

/// Copies rows of one type, of any strides.
void copy_elements(const TokenRows &rows) {
  with_type(rows.from_dtype, [&](auto type) {
    using Bits = typename decltype(type)::Bits;
    for (int64_t head = 0; head < rows.heads; head++)
      for (int64_t d = 0; d < rows.dim; d++)
        std::memcpy(rows.to + head * rows.to_head + d * rows.to_elem,
                    rows.from + head * rows.from_head + d * rows.from_elem, sizeof(Bits));
  });
}

/// Copies rows of one type whose elements are adjacent.
void copy_rows(const TokenRows &rows) {
  for (int64_t head = 0; head < rows.heads; head++)
    std::memcpy(rows.to + head * rows.to_head, rows.from + head * rows.from_head,
                static_cast<size_t>(rows.dim * rows.from_elem));
}

}  // namespace

void copy_box(const IsaKernels &kernels, TokenBox box) {
  join_rows(&box);
  const bool adjacent = box.from_elem == box.to_elem && box.from_elem == dtype_bytes(box.from_dtype);
  for (int64_t token = 0; token < box.tokens; token++) {
    const TokenRows rows = box.rows(token);
    if (rows.from_dtype != rows.to_dtype) {
      kernels.convert_rows(rows);
    } else if (adjacent) {
      copy_rows(rows);
    } else {
      copy_elements(rows);
    }
  }
}

}  // namespace fa::cpu

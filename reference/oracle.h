// Attention in double precision, straight from "THE MATHEMATICS" of fa.h; and the same maths done naively in
// the low precision of the tensors, the yardstick for how large an error may be.
#pragma once

#include <fa.h>

#include <cstdint>
#include <vector>

namespace reference {

/// The outputs of a call, dense, in the shape of its out tensor: (batch, rows, heads, dim).
struct Result {
  int64_t batch = 0, rows = 0, heads = 0, dim = 0;
  std::vector<char> written;  // (batch, rows): whether the row is an output at all
  std::vector<double> out;    // (batch, rows, heads, dim)
  std::vector<double> lse;    // (batch, rows, heads)

  // The terms of the error bounds, over the keys attended; attention() alone fills them in.
  std::vector<double> mean_v;     // (batch, rows, heads, dim): sum_j p_j |v_j|
  std::vector<double> largest_v;  // (batch, rows, heads, dim): max_j |v_j|
  std::vector<double> even_v;     // (batch, rows, heads, dim): sum_j |v_j| / l: as mean_v, were all weights the largest
  std::vector<double> score;      // (batch, rows, heads): the largest |scale| |q| |k| + |bias| + |ALiBi|
  std::vector<double> lost;       // (batch, rows, heads): the most that numbers near 0 may make of a score
  std::vector<double> keys;       // (batch, rows, heads): how many

  int64_t row(int64_t b, int64_t i) const { return b * rows + i; }
  int64_t head(int64_t b, int64_t i, int64_t h) const { return row(b, i) * heads + h; }
  int64_t element(int64_t b, int64_t i, int64_t h, int64_t d) const { return head(b, i, h) * dim + d; }
};

/// The exact result.
Result attention(const fa_desc &desc, const fa_forward_args &args);

/// The textbook's attention in the precision of q: products summed in f32 in plain order, probabilities rounded to q's
/// type, the output rounded to out's type.
Result naive(const fa_desc &desc, const fa_forward_args &args);

}  // namespace reference

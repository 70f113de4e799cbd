// Views of ONNX Runtime's tensors as (batch, sequence, heads, dim), and caches that are past and new rows in one
// tensor.
#pragma once
#include "call.h"

namespace fa_ort {

// The view of an array (batch, heads, sequence, dim).
fa_tensor heads_first(const Tensor &tensor);

// The view of an array (batch, heads, sequence, dim) or (batch, sequence, heads * dim). Throws BadInput, which names
// the tensor.
fa_tensor heads_of(const char *name, const Tensor &tensor, int64_t heads);

// Throws BadInput where k does not have the batch of q, or v the batch, rows and heads of k.
void expect_same_lengths(const fa_tensor &q, const fa_tensor &k, const fa_tensor &v);

// A past and the new rows in one tensor, which is the output `index` where something reads it, else scratch; the new
// rows alone where neither is there. forward_over copies them.
struct Joined {
  fa_tensor all = {}, past = {}, fresh = {};
  bool copies_past = false, copies_fresh = false;
};
Joined join(Call *call, size_t index, const Tensor &past, const fa_tensor &fresh);

// Call::forward, after the copies of k and v, whose `all` args reads.
void forward_over(Call *call, const fa::Desc &desc, const fa::ForwardArgs &args, const Joined &k, const Joined &v);

}  // namespace fa_ort

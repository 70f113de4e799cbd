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

// past and then the new rows: in the output `index` where something reads it, else in scratch; the new rows alone where
// neither is there.
fa_tensor joined(Call *call, size_t index, const Tensor &past, const fa_tensor &fresh);

}  // namespace fa_ort

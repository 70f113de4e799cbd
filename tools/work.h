// The operations and bytes of a call, the numerators of GFLOP/s and GB/s.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa::tool {

struct Work {
  int64_t pairs = 0;  // (query, key) that attend each other by mask kind, window and chunk, over all heads of q
  double flops = 0;   // two for each multiplication and addition of both products
  double bytes = 0;   // q, k, v and out, each used row once
};

/// The work of a call that the library has accepted.
Work work_of(const fa_desc &desc, const fa_forward_args &args);

}  // namespace fa::tool

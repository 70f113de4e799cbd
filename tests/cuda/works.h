// Calls for persistent families: on a device of two multiprocessors blocks work through many tiles one after another.
#pragma once

#include <limits>

#include "cuda/fixture.h"

namespace cuda_test {

inline Case base_case() {
  Case c;
  c.b = 2, c.sq = 70, c.sk = 150, c.hq = 2, c.hkv = 2, c.d = 64, c.q = FA_F16, c.mask = FA_MASK_CAUSAL, c.splits = 1;
  return c;
}

/// Runs a call; "" when its result is right, else why not. *log is the library's log of it.
inline std::string run(const Case &c, std::string *log) {
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  if (op.status != FA_OK) return fa_last_error();
  Log said;
  if (fa_forward(op.op, &own.args) != FA_OK) return fa_last_error();
  *log = said.text;
  return own.failure();
}

/// Each block has several works, with and without a mask's tiles, whose keys pass through its stages more than once; a
/// value that is not finite, in the middle of one of them, is hidden from some rows.
inline void work_through(const Case &c, int64_t key) {
  const InContext in;
  Call own(c);
  const Op op(desc_of(c));
  own.instance.v.set(1, key, 0, 3, std::numeric_limits<double>::quiet_NaN());
  own.update(own.instance.v);
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  EXPECT_EQ(own.failure(), "");
}

inline Case long_case(int64_t dim, fa_dtype type) {
  Case c = base_case();
  c.b = 3, c.sq = 250, c.sk = 700, c.hkv = 1, c.d = dim, c.q = type;
  return c;
}

}  // namespace cuda_test

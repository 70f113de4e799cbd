// fa_merge, in double precision, straight from "MERGING PARTIAL RESULTS" of fa.h; calls of it in guarded memory; and
// how far a result may be from the exact one.
#pragma once

#include <fa.h>

#include <string>
#include <vector>

#include "reference/memory.h"
#include "reference/run.h"
#include "reference/tensor.h"

namespace reference {

/// Everything that decides a call. Contents follow from the sizes and the seed.
struct MergeCase {
  int64_t b = 2, sq = 3, hq = 4, dv = 64;
  fa_dtype out = FA_F32;
  std::vector<fa_dtype> parts = {FA_F32, FA_F32};
  Layout out_layout = Layout::bshd;
  std::vector<Layout> layouts = {Layout::bshd};  // of the parts' outs, cyclically
  Layout lse_layout = Layout::bshd;              // of all of them
  bool lse = true;
  bool base_2 = false;
  bool in_place = false;  // out is outs[0], and lse lses[0]
  std::string mask;       // dimensions of "bh" that are not repeated, with "q": "bhq"; "": absent
  double lse_amp = 4;     // of log-sum-exps, which are nearly normal
  bool empty = true;      // some parts of rows, and all parts of some rows, have no keys, and out there is NaN
  bool special = false;   // some log-sum-exps are NaN or +inf, some values NaN or infinite
  bool workspace = false;
  int32_t threads = 1;
  uint64_t seed = 1;
};

std::string to_text(const MergeCase &c);

class MergeInstance {
 public:
  explicit MergeInstance(const MergeCase &c, Guard guard = Guard::end);
  MergeInstance(const MergeInstance &) = delete;
  MergeInstance &operator=(const MergeInstance &) = delete;

  MergeCase c;
  fa_desc desc;
  fa_merge_args args;
  std::vector<Tensor> outs, lses;
  Tensor out, lse, mask;  // out and lse: not of a call in place

  const Tensor &merged_out() const { return c.in_place ? outs[0] : out; }
  const Tensor &merged_lse() const { return c.in_place ? lses[0] : lse; }

  /// out and lse as bytes of their elements in index order.
  std::vector<char> output_bits() const;

  /// "" when inputs are as they were built, and so are gaps between outputs.
  std::string untouched() const;

 private:
  void fill() const;

  std::vector<fa_tensor> out_views_, lse_views_;
  std::vector<std::vector<char>> inputs_as_built_;
};

/// The exact result of a call, and the bounds of its error; dense, in the order of out's indices.
struct MergedExactly {
  std::vector<double> out, out_bound;  // (b, q, h, d)
  std::vector<double> lse, lse_bound;  // (b, q, h)
};

/// To be called before fa_merge, which may write over its parts.
MergedExactly merged(const fa_desc &desc, const fa_merge_args &args);

/// "" where out and lse of the instance are within the bounds, else the first error.
std::string compare(const MergeInstance &instance, const MergedExactly &exact);

/// fa_merge, and waiting for the GPU.
fa_status merge(const Op &op, const MergeInstance &instance);

/// Creates, runs and checks a call, with its tensors flush against either guard page: "" when all is right.
std::string failure_of(const MergeCase &c, const std::string &kernel);

}  // namespace reference

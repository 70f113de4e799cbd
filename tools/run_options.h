// The options of `fa run`, as given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "options.h"

namespace fa::tool {

struct RunOptions {
  // Paths; "" where not given.
  std::string q, k, v, out, lse_out, reference, bias, mask, alibi, sinks;
  std::string dout, dq, dk, dv;
  std::string cu_seqlens, block_table;
#define FA_ARRAY(name, more) std::string name;
#include "core/operands.inc"

  std::string layout = "bshd", dtype, out_dtype;
  bool u2_as_bf16 = false;

  bool causal = false, causal_top_left = false, bias_before_softcap = false;
  std::string window;
  int64_t chunk = 0;
  float softcap = 0;
  std::optional<float> scale;

  std::string device = "auto", kernel;
  int32_t threads = 0, num_splits = 0;
  bool batch_invariant = false, nondeterministic = false;

  double max_error = -1;  // not given
  int64_t repeat = 0;
  std::string case_text;
};

/// The option of an array of fa_args: "--seqused-q" of "seqused_q".
std::string option_of(std::string array);

/// Defines them; options must live until the command line has been parsed.
void define_run_options(Options *o, RunOptions *options);

}  // namespace fa::tool

// The options of `fa append`, as given.
#pragma once

#include <cstdint>
#include <string>

#include "options.h"
#include "schema/schema.h"

namespace fa::tool {

struct AppendOptions {
  // Paths; "" where not given.
#define FA_PATH(name, ...) std::string name;
  FA_APPEND_FIELDS(FA_PATH, FA_PATH, FA_NOTHING)
#undef FA_PATH

  std::string layout = "bshd", dtype, dtype_kv, dtype_v;
  bool u2_as_bf16 = false;

  std::string new_cache, scale_dtype;
  int64_t groups = 0;  // not given
  bool compute_scales = false, rotary_interleaved = false, rotary_tail = false;
  bool hadamard_k = false, hadamard_v = false;

  std::string device = "auto", kernel;
  int32_t threads = 0;
  int64_t repeat = 0;
};

/// Defines them; options must live until the command line has been parsed.
void define_append_options(Options *o, AppendOptions *options);

}  // namespace fa::tool

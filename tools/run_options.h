// The options of `fa run`, as given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention_options.h"
#include "options.h"
#include "schema/schema.h"

/// The inputs of fa_forward, each of which has an option.
#define FA_RUN_FIELDS(TENSOR, ARRAY, OTHER) \
  FA_INPUT_FIELDS(TENSOR, ARRAY, OTHER)     \
  FA_QUANTISED_FIELDS(TENSOR, ARRAY, OTHER) \
  FA_ROPE_FIELDS(TENSOR, ARRAY, OTHER)      \
  FA_TREE_FIELDS(TENSOR, ARRAY, OTHER)

namespace fa::tool {

struct RunOptions : MaskOptions {
  // Paths; "" where not given.
#define FA_PATH(name, ...) std::string name;
  FA_RUN_FIELDS(FA_PATH, FA_PATH, FA_NOTHING)
#undef FA_PATH
  std::string out, lse_out, dout, dlse, dq, dk, dv, dbias, dsinks, cu_seqlens;
  std::vector<std::string> references;  // as given; by take_references():
  std::string reference, reference_dq, reference_dk, reference_dv, reference_dbias, reference_dsinks;

  std::string layout = "bshd", dtype, dtype_kv, dtype_v, out_dtype;
  bool u2_as_bf16 = false, accumulate = false;

  bool bias_before_softcap = false;
  float softcap = 0;
  std::optional<float> scale;

  std::string device = "auto", kernel;
  int32_t threads = 0, num_splits = 0;
  bool batch_invariant = false, nondeterministic = false, hadamard_k = false, hadamard_v = false;
  bool device_pointers = false;

  double max_error = -1;  // not given
  int64_t repeat = 0;
  std::string case_text;
};

/// A gradient that can be asked for.
struct GradientOption {
  const char *name;             // "dq"
  std::string RunOptions::*of;  // the input that it is the gradient of
  std::string RunOptions::*path;
  std::string RunOptions::*reference;
};
inline constexpr GradientOption gradient_options[] = {
    {"dq", &RunOptions::q, &RunOptions::dq, &RunOptions::reference_dq},
    {"dk", &RunOptions::k, &RunOptions::dk, &RunOptions::reference_dk},
    {"dv", &RunOptions::v, &RunOptions::dv, &RunOptions::reference_dv},
    {"dbias", &RunOptions::bias, &RunOptions::dbias, &RunOptions::reference_dbias},
    {"dsinks", &RunOptions::sinks, &RunOptions::dsinks, &RunOptions::reference_dsinks}};

/// Shares the references out: "dq=FILE" is that of dq, "FILE" that of the output. Throws BadInput.
void take_references(RunOptions *options);

/// The option of an optional tensor or an array of fa_forward_args: "--seqused-q" of "seqused_q".
std::string option_of(std::string field);

/// The help's text of the option of a tensor. Tensors of one form that follow each other have one, and so one entry.
std::string help_of(schema::ShapeRule shape, const char *text);

/// Defines them; options must live until the command line has been parsed.
void define_run_options(Options *o, RunOptions *options);

}  // namespace fa::tool

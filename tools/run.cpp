// `fa run`: attention of .npy files.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cache_file.h"
#include "check_case.h"
#include "command.h"
#include "device_call.h"
#include "error.h"
#include "file.h"
#include "library.h"
#include "npy.h"
#include "run_call.h"
#include "run_gradients.h"
#include "run_options.h"
#include "run_reference.h"
#include "text.h"
#include "work.h"

namespace fa::tool {
namespace {

void check_outputs(const RunOptions &options) {
  std::vector<const std::string *> inputs = {
      &options.dout,
      &options.dlse,
      &options.cu_seqlens,
      &options.reference,
      &options.reference_dq,
      &options.reference_dk,
      &options.reference_dv,
      &options.reference_dbias,
      &options.reference_dsinks,
  };
#define FA_PATH(name, ...) inputs.push_back(&options.name);
  FA_RUN_FIELDS(FA_PATH, FA_PATH, FA_NOTHING)
#undef FA_PATH
  check_outputs_are_no_inputs(
      {&options.out, &options.lse_out, &options.dq, &options.dk, &options.dv, &options.dbias, &options.dsinks}, inputs);
}

void check_usage(const RunOptions &options) {
  for (const auto &[path, option] : {std::pair(&options.q, "--q"), {&options.k, "--k"}, {&options.v, "--v"}}) {
    if (path->empty())
      bad_input("{} is missing; the shortest call is: fa run --q Q.npy --k K.npy --v V.npy -o OUT.npy", option);
  }
  check_gradient_usage(options);
  if (options.out.empty() && options.lse_out.empty() && options.dout.empty() && options.reference.empty() &&
      options.repeat == 0) {
    bad_input(
        "there is nothing to do: say where the output goes (-o OUT.npy), what to compare it with (--reference FILE) or "
        "how often to time it (--repeat N)");
  }
  if (options.max_error >= 0 && options.references.empty()) bad_input("--max-error needs --reference FILE");
  if (options.scale == 0.0F)
    bad_input("--scale is 0, which would make all scores equal; expected another number (left out: 1 / sqrt(dim))");
  check_outputs(options);
}

int run_files(const RunOptions &options) {
  check_usage(options);
  RunCall call(options);
  std::optional<Reference> reference;
  if (!options.reference.empty()) reference.emplace(options.reference, call.out, "the output");
  // Created before the work, so that a place that cannot be written is found early.
  std::optional<OutputFile> out, lse;
  if (!options.out.empty()) out.emplace(options.out);
  if (!options.lse_out.empty()) lse.emplace(options.lse_out);

  std::optional<RunGradients> gradients;
  if (!options.dout.empty()) gradients.emplace(options, &call);

  const Op op = create_op(call.desc);
  fmt::print("kernel     {}\n", fa_op_kernel_name(op.get()));
  fmt::print("q, k, v    {}, {}, {}; {} sequence{}\n", describe(call.q), describe(call.k, call.args.k.dtype),
             describe(call.v, call.args.v.dtype), call.sequences(), call.sequences() == 1 ? "" : "s");
  time_on_device("time", options.repeat, {work_of(call.desc, call.args).flops, "GFLOP/s"}, fa_forward, op, call.args,
                 call.sequences(), call.desc.device_index);
  if (gradients) gradients->run(op, call, options.repeat);
  if (out) out->write(format_npy(call.out));
  if (lse) lse->write(format_npy(call.lse));
  for (std::optional<OutputFile> *file : {&out, &lse}) {
    if (*file) (*file)->commit();
  }
  fmt::print("out        {}{}{}\n", describe(call.out), out ? " -> " : "", printable(options.out));
  if (lse) fmt::print("lse        {} -> {}\n", describe(call.lse), printable(options.lse_out));
  if (gradients) gradients->write();
  bool agree = !reference || reference->agrees(call.out, options.max_error);
  if (gradients) agree &= gradients->agree(options.max_error);
  return agree ? exit_ok : exit_failure;
}

/// Replays a case: its tensors follow from the line alone.
int run_case(const RunOptions &options) {
  if (!options.q.empty() || !options.out.empty()) bad_input("--case takes no other files: its line says everything");
  const bool any_of_gpu = options.device == "cuda" && forced_kernel().empty();
  const CaseOutcome outcome = check_case(options.case_text, any_of_gpu ? "cuda" : forced_kernel());
  fmt::print("kernel     {}\ncase       {}\n", outcome.kernel, outcome.text);
  if (!outcome.failure.empty()) failure("the case fails: {}", outcome.failure);
  fmt::print("right      largest error {:.3g} ({:.0f} % of its bound; the naive computation's: {:.3g})\n",
             outcome.error, 100 * outcome.of_bound, outcome.naive_error);
  return exit_ok;
}

int run(RunOptions &options) {
  take_references(&options);
  return options.case_text.empty() ? run_files(options) : run_case(options);
}

}  // namespace

Command run_command() {
  Command command{};
  command.name = "run";
  command.summary = "compute attention on .npy files";
  command.usage = "--q FILE --k FILE --v FILE -o FILE [options]";
  command.details =
      "Reads queries, keys and values from files that numpy.save wrote, computes out = softmax(scale q k^T, masked) "
      "v, and writes it as a .npy file. Prints the kernel that ran, the time, and with --reference the distance to "
      "another array.\n"
      "\n"
      "Arrays of four dimensions are (batch, sequence, heads, dim), or (batch, heads, sequence, dim) with --layout "
      "bhsd; the output has the same order. Arrays of three dimensions are packed sequences, (total, heads, dim), "
      "whose beginnings --cu-seqlens gives. With --block-table k and v are pages, (pages, rows, heads, dim). The "
      "number of heads of k and v divides that of q. Rows that no sequence uses are 0 in the output.\n"
      "\n"
      "k and v may be quantised: codes in int8 (i8), in uint8 or ml_dtypes' float8 (e4m3, e5m2), two a byte of uint8 "
      "(i4, u4), or ggml's blocks in uint8 (q8_0, q4_0), the last dimension being the bytes of a row. --dtype-kv says "
      "which; int8 is i8 by itself. An element is (code - zero) * scale, where --k-scale and its like are numbers "
      "whose dimensions are those of the codes or 1, or left out at the front, the last a number of groups of "
      "channels. fa-append(1) writes such files.\n"
      "\n"
      "With --dout, the gradient of the output, those gradients are computed too that have a file or a reference. "
      "Their files have the order and type of their inputs, those of sinks float32. --dlse is the gradient of the "
      "log-sum-exp, of the shape that --lse-out writes. With --accumulate a gradient is added to the contents of its "
      "file, an array of float32, whatever the type of q; with --repeat, once.\n"
      "\n"
      "--reference compares the output with an array computed elsewhere, and dq=FILE, dk=FILE, dv=FILE, dbias=FILE or "
      "dsinks=FILE a gradient, whether or not that is written; it may be repeated. With --max-error the exit code is "
      "1 when an element of any differs by more.\n"
      "\n"
      "Files may be in C or Fortran order and in either byte order. float64 is converted with --dtype only. bfloat16 "
      "is read as ml_dtypes writes it (a two-byte void), or from uint16 with --u2-as-bf16, and written as ml_dtypes "
      "does.\n"
      "\n"
      "An output appears whole or not at all: it is written next to its destination and renamed, and removed when the "
      "command fails or is interrupted.\n"
      "\n"
      "libfa(3) specifies each option, under the name of the field that it sets.";
  command.examples = {{"Causal attention of packed sequences:",
                       "fa run --q q.npy --k k.npy --v v.npy --cu-seqlens cu.npy --causal -o out.npy"}};
  command.define = define_command<RunOptions, define_run_options, run>;
  return command;
}

}  // namespace fa::tool

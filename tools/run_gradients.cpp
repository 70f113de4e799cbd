#include "run_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "device_call.h"
#include "error.h"
#include "text.h"
#include "work.h"

namespace fa::tool {

namespace {

bool is_wanted(const RunOptions &options, const GradientOption &gradient) {
  return !(options.*gradient.path).empty() || !(options.*gradient.reference).empty();
}

/// A gradient's array before the call: zeros, or the contents of the file that it is added to.
Array initial(const RunOptions &options, const GradientOption &gradient, const Array &of) {
  const std::string &path = options.*gradient.path;
  if (!options.accumulate || path.empty()) {
    const bool in_float32 = std::string_view(gradient.name) == "dsinks";
    return make_array(in_float32 ? NpyType::f32 : of.type, of.shape);
  }
  Array array = read_npy(path);
  if (array.type != NpyType::f32 || array.shape != of.shape) {
    bad_input("{}: holds {}; --accumulate adds {} to an array of float32 {}", path, describe(array), gradient.name,
              shape_text(of.shape));
  }
  return array;
}

}  // namespace

void check_gradient_usage(const RunOptions &options) {
  bool any = false, any_file = false;
  for (const GradientOption &gradient : gradient_options) {
    if (!is_wanted(options, gradient)) continue;
    any = true;
    any_file |= !(options.*gradient.path).empty();
    const bool written = !(options.*gradient.path).empty();
    const std::string option =
        fmt::format("{}{}{}", written ? "--" : "--reference ", gradient.name, written ? "" : "=FILE");
    if (options.dout.empty()) bad_input("{} needs --dout FILE, the gradient of the output", option);
    if ((options.*gradient.of).empty()) bad_input("{} needs --{} FILE", option, gradient.name + 1);
  }
  if (!options.dlse.empty() && options.dout.empty()) bad_input("--dlse needs --dout FILE, the gradient of the output");
  if (!options.dout.empty() && !any) {
    bad_input(
        "--dout FILE: say where the gradients go, --dq FILE, --dk FILE or --dv FILE, or the arrays to compare them "
        "with, --reference dq=FILE");
  }
  if (options.accumulate && !any_file) bad_input("--accumulate needs the file of a gradient to add to: --dq FILE");
  std::set<std::string> paths;
  for (const std::string *path :
       {&options.out, &options.lse_out, &options.dq, &options.dk, &options.dv, &options.dbias, &options.dsinks}) {
    if (!path->empty() && !paths.insert(*path).second)
      bad_input("two of -o, --lse-out, --dq, --dk, --dv, --dbias and --dsinks are the same file, {}", *path);
  }
}

RunGradients::RunGradients(const RunOptions &options, RunCall *call) {
  read_inputs(options, *call);
  const fa_forward_args &a = call->args;
  fa_backward_args_init(&args_, sizeof args_);
#define FA_COPY(name, ...) args_.name = a.name;
  FA_INPUT_FIELDS(FA_COPY, FA_COPY, FA_COPY)
#undef FA_COPY
  args_.out = a.out, args_.lse = a.lse;
  args_.dout = call->view(&dout_);
  if (!options.dlse.empty()) {
    args_.dlse = a.lse;
    args_.dlse.data = dlse_.bytes.data();
  }

  struct Field {
    const Array &of;
    const fa_tensor &input;
    fa_tensor *gradient;
    uint32_t accumulate;
  };
  const Field fields[] = {{call->q, a.q, &args_.dq, FA_ACCUMULATE_DQ},
                          {call->k, a.k, &args_.dk, FA_ACCUMULATE_DK},
                          {call->v, a.v, &args_.dv, FA_ACCUMULATE_DV},
                          {call->bias, a.bias, &args_.dbias, FA_ACCUMULATE_DBIAS},
                          {call->sinks, a.sinks, &args_.dsinks, FA_ACCUMULATE_DSINKS}};
  static_assert(std::size(fields) == std::size(gradient_options));
  outputs_.reserve(std::size(fields));  // tensors point into them
  for (size_t i = 0; i < std::size(fields); ++i) {
    const GradientOption &gradient = gradient_options[i];
    if (!is_wanted(options, gradient)) continue;
    const std::string &path = options.*gradient.path, &reference = options.*gradient.reference;
    Output &output = outputs_.emplace_back();
    output.name = gradient.name;
    output.path = path;
    output.array = initial(options, gradient, fields[i].of);
    if (!path.empty()) output.file = std::make_unique<OutputFile>(path);
    if (!reference.empty()) output.reference.emplace(reference, output.array, gradient.name);
    *fields[i].gradient = fields[i].input;  // contiguous arrays both, so with the same strides
    fields[i].gradient->data = output.array.bytes.data();
    fields[i].gradient->dtype = dtype_of(output.array.type);
    if (options.accumulate && !path.empty()) args_.accumulate |= fields[i].accumulate;
  }
}

void RunGradients::read_inputs(const RunOptions &options, const RunCall &call) {
  dout_ = read_floating(options.dout, options.u2_as_bf16);
  if (!options.dtype.empty()) {
    dout_ = converted(std::move(dout_), npy_type_of(dtype_of_name(options.dtype)));
  } else if (dout_.type == NpyType::f64) {
    dout_ = converted(std::move(dout_), NpyType::f32);
  }
  if (dout_.shape != call.out.shape) {
    bad_input("{}: shape {}; --dout takes an array of the output's shape, {}", options.dout, shape_text(dout_.shape),
              shape_text(call.out.shape));
  }
  if (options.dlse.empty()) return;
  dlse_ = converted(read_floating(options.dlse, options.u2_as_bf16), NpyType::f32);
  if (dlse_.shape != call.lse.shape) {
    bad_input("{}: shape {}; --dlse takes an array of the log-sum-exp's shape, {}", options.dlse,
              shape_text(dlse_.shape), shape_text(call.lse.shape));
  }
}

void RunGradients::run(const Op &op, const RunCall &call, int64_t repeat) {
  const double flops = 2.5 * work_of(call.desc, call.args).flops;  // five products for the forward pass's two
  std::vector<std::vector<std::byte>> once_added;
  const auto keep = [&] {
    if (args_.accumulate == 0 || repeat == 0) return;
    for (const Output &output : outputs_) once_added.push_back(output.array.bytes);
  };
  time_on_device("backward", repeat, {flops, "GFLOP/s"}, fa_backward, op, args_, call.sequences(),
                 call.desc.device_index, keep);
  for (size_t i = 0; i < once_added.size(); ++i) std::ranges::copy(once_added[i], outputs_[i].array.bytes.begin());
}

void RunGradients::write() {
  for (const Output &output : outputs_) {
    if (output.file) output.file->write(format_npy(output.array));
  }
  for (const Output &output : outputs_) {
    if (!output.file) continue;
    output.file->commit();
    fmt::print("{:<10} {} -> {}\n", output.name, describe(output.array), printable(output.path));
  }
}

bool RunGradients::agree(double max_error) const {
  bool all = true;
  for (const Output &output : outputs_) all &= !output.reference || output.reference->agrees(output.array, max_error);
  return all;
}

}  // namespace fa::tool

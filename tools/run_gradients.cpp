#include "run_gradients.h"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "error.h"
#include "on_gpu.h"
#include "printable.h"
#include "run_times.h"
#include "work.h"

namespace fa::tool {

void check_gradient_usage(const RunOptions &options) {
  const bool any = !options.dq.empty() || !options.dk.empty() || !options.dv.empty();
  if (any && options.dout.empty()) bad_input("--dq, --dk and --dv need --dout FILE, the gradient of the output");
  if (!any && !options.dout.empty())
    bad_input("--dout FILE: say where the gradients go, --dq FILE, --dk FILE or --dv FILE");
  std::set<std::string> paths;
  for (const std::string *path : {&options.out, &options.lse_out, &options.dq, &options.dk, &options.dv}) {
    if (!path->empty() && !paths.insert(*path).second)
      bad_input("two of -o, --lse-out, --dq, --dk and --dv are the same file, {}", *path);
  }
}

RunGradients::RunGradients(const RunOptions &options, RunCall *call) {
  dout_ = read_floating(options.dout, options.u2_as_bf16);
  if (!options.dtype.empty()) {
    dout_ = converted(std::move(dout_), npy_type_of(dtype_of_name(options.dtype)));
  } else if (dout_.type == NpyType::f64) {
    dout_ = converted(std::move(dout_), NpyType::f32);
  }
  if (dout_.shape != call->out.shape) {
    bad_input("{}: shape {}; --dout takes an array of the output's shape, {}", options.dout, shape_text(dout_.shape),
              shape_text(call->out.shape));
  }
  const fa_args &a = call->args;
  fa_backward_args_init(&args_, sizeof args_);
  args_.q = a.q, args_.k = a.k, args_.v = a.v, args_.out = a.out, args_.lse = a.lse;
  args_.dout = call->view(&dout_);
  args_.bias = a.bias, args_.mask = a.mask, args_.alibi_slopes = a.alibi_slopes, args_.sinks = a.sinks;
  args_.block_table = a.block_table;
  args_.cu_seqlens_q = a.cu_seqlens_q, args_.cu_seqlens_k = a.cu_seqlens_k;
  args_.seqused_q = a.seqused_q, args_.seqused_k = a.seqused_k;
  args_.leftpad_k = a.leftpad_k, args_.kv_batch_idx = a.kv_batch_idx, args_.q_offset = a.q_offset;
  args_.num_seqs = a.num_seqs, args_.max_seqlen_q = a.max_seqlen_q, args_.max_seqlen_k = a.max_seqlen_k;

  const auto add = [&](const char *name, const std::string &path, const Array &of, fa_tensor *tensor) {
    if (path.empty()) return;
    outputs_.push_back({name, path, make_array(of.type, of.shape), tensor, std::make_unique<OutputFile>(path)});
  };
  outputs_.reserve(3);
  add("dq", options.dq, call->q, &args_.dq);
  add("dk", options.dk, call->k, &args_.dk);
  add("dv", options.dv, call->v, &args_.dv);
  for (Output &output : outputs_) *output.tensor = call->view(&output.array);
}

void RunGradients::run(const Op &op, const RunCall &call, int64_t repeat) {
  std::optional<OnGpu<fa_backward_args>> gpu;
  if (is_gpu_kernel(fa_op_kernel(op.get()))) gpu.emplace(args_, op.get(), call.sequences(), call.desc.device_index);
  const auto once = [&] {
    check(fa_backward(op.get(), gpu ? &gpu->args : &args_));
    if (gpu) gpu->wait();
  };
  const double flops = 2.5 * work_of(call.desc, call.args).flops;  // five products for the forward pass's two
  time_calls("backward", repeat, flops, once, [&] {
    if (gpu) gpu->fetch();
  });
}

void RunGradients::write() {
  for (const Output &output : outputs_) output.file->write(format_npy(output.array));
  for (const Output &output : outputs_) {
    output.file->commit();
    fmt::print("{:<10} {} -> {}\n", output.name, describe(output.array), printable(output.path));
  }
}

}  // namespace fa::tool

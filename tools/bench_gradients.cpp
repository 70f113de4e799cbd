#include "bench_gradients.h"

namespace fa::tool {

BenchGradients::BenchGradients(const BenchCase &c, const Op &op, const fa_forward_args &forward, int32_t device_index)
    : lse_(make_array(NpyType::f32, {c.batch, c.heads_q, c.rows_q, 1})),
      dout_(random_array(c.dtype, {c.batch, c.rows_q, c.heads_q, c.dim_v}, uint64_t{1} << 42)),
      dq_(make_array(npy_type_of(c.dtype), {c.batch, c.rows_q, c.heads_q, c.dim})),
      dk_(make_array(npy_type_of(c.dtype), {c.batch, c.rows_k, c.heads_kv, c.dim})),
      dv_(make_array(npy_type_of(c.dtype), {c.batch, c.rows_k, c.heads_kv, c.dim_v})) {
  fa_forward_args once = forward;
  once.lse = tensor_of(&lse_, FA_F32);
  once.workspace = nullptr;
  once.workspace_size = 0;
  const bool on_gpu = is_gpu_kernel(fa_op_kernel_name(op.get()));
  if (on_gpu) {
    const OnGpu copy(once, op.get(), c.batch, device_index);
    check(fa_forward(op.get(), &copy.args));
    copy.fetch();
  } else {
    check(fa_forward(op.get(), &once));
  }
  fa_backward_args_init(&args_, sizeof args_);
  args_.q = once.q, args_.k = once.k, args_.v = once.v, args_.out = once.out, args_.lse = once.lse;
  args_.dout = tensor_of(&dout_, c.dtype);
  args_.dq = tensor_of(&dq_, c.dtype);
  args_.dk = tensor_of(&dk_, c.dtype);
  args_.dv = tensor_of(&dv_, c.dtype);
  if (on_gpu) {
    gpu_.emplace(args_, op.get(), c.batch, device_index);
    return;
  }
  size_t bytes = 0;
  check(fa_backward_workspace_size(op.get(), &args_, &bytes));
  args_.workspace = workspace_.allocate(bytes);
  args_.workspace_size = bytes;
}

}  // namespace fa::tool

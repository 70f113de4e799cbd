#include "bench_call.h"

#include <cstring>
#include <memory>

#include "library.h"
#include "reference/number.h"
#include "reference/random.h"

namespace fa::tool {

Array random_array(fa_dtype dtype, std::vector<int64_t> shape, uint64_t seed) {
  Array array = make_array(npy_type_of(dtype), std::move(shape));
  const auto step = static_cast<size_t>(reference::dtype_bytes(dtype));
  const size_t period = step * 65521;  // a prime: rows do not repeat
  for (size_t at = 0; at < array.bytes.size(); at += step) {
    if (at < period) {
      reference::store(&array.bytes[at], dtype, reference::normal(reference::hash(seed + at)));
    } else {
      std::memcpy(&array.bytes[at], &array.bytes[at - period], step);
    }
  }
  return array;
}

fa_tensor tensor_of(Array *array, fa_dtype dtype) {
  fa_tensor tensor = {};
  const std::vector<int64_t> &s = array->shape;
  fa_tensor_init(&tensor, array->bytes.data(), dtype, s[0], s[1], s[2], s[3]);
  return tensor;
}

void *BenchWorkspace::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  memory_.resize(bytes + 256);
  void *place = memory_.data();
  size_t room = memory_.size();
  return std::align(256, bytes, place, room);
}

BenchMerge::BenchMerge(const BenchCase &c, const Op &op, int32_t device_index)
    : out_(make_array(npy_type_of(c.dtype), {c.batch, c.rows_q, c.heads_q, c.dim_v})),
      lse_(make_array(NpyType::f32, {c.batch, c.heads_q, c.rows_q, 1})) {
  for (int32_t i = 0; i < c.merge; ++i) {
    const uint64_t seed = static_cast<uint64_t>(i + 1) << 40;
    parts_.push_back(random_array(c.dtype, out_.shape, seed));
    part_lses_.push_back(random_array(FA_F32, lse_.shape, seed + 1));
  }
  for (Array &each : parts_) outs_.push_back(tensor_of(&each, c.dtype));
  for (Array &each : part_lses_) lses_.push_back(tensor_of(&each, FA_F32));
  fa_merge_args_init(&args_, sizeof args_);
  args_.outs = outs_.data();
  args_.lses = lses_.data();
  args_.num_parts = c.merge;
  args_.out = tensor_of(&out_, c.dtype);
  args_.lse = tensor_of(&lse_, FA_F32);
  if (is_gpu_kernel(fa_op_kernel_name(op.get()))) gpu_.emplace(args_, op.get(), c.batch, device_index);
}

Work BenchMerge::work(const BenchCase &c) {
  Work work;
  work.flops = 2.0 * c.merge * static_cast<double>(c.batch * c.rows_q * c.heads_q * c.dim_v);
  work.bytes = tensor_bytes(c);
  return work;
}

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

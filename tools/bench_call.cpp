#include "bench_call.h"

#include <algorithm>
#include <memory>

#include "library.h"

namespace fa::tool {

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

BenchAppend::BenchAppend(const BenchCase &c, const Op &op, int32_t device_index)
    : c_(c),
      k_(random_array(c.dtype, {c.batch, c.rows_q, c.heads_kv, c.dim}, 1)),
      v_(random_array(c.dtype, {c.batch, c.rows_q, c.heads_kv, c.dim_v}, 2)),
      caches_(c),
      source_(make_array(NpyType::u8, {static_cast<int64_t>(tensor_bytes(c) / 2)})),
      target_(make_array(NpyType::u8, {static_cast<int64_t>(copy_bytes(c))})),
      lengths_(static_cast<size_t>(c.batch)) {
  fa_append_args_init(&args_, sizeof args_);
  args_.k = tensor_of(&k_, c.dtype);
  args_.v = tensor_of(&v_, c.dtype);
  args_.cache_seqlens = lengths_.data();
  if (is_scaled(c.cache())) args_.flags = FA_APPEND_COMPUTE_SCALES;
  advance();
  if (is_gpu_kernel(fa_op_kernel_name(op.get()))) gpu_.emplace(args_, op.get(), c.batch, device_index);
}

void BenchAppend::advance() {
  if (c_.cold) {
    place_ += c_.rows_q;
    if (place_ + c_.rows_q > c_.rows_k) place_ = 0, cache_ = (cache_ + 1) % caches_.count();
  } else {
    place_ = c_.rows_k - c_.rows_q;
  }
  std::fill(lengths_.begin(), lengths_.end(), static_cast<int32_t>(place_));
  const BenchCaches::Tensors to = caches_.tensors(cache_);
  args_.k_cache = to.k, args_.v_cache = to.v;
  args_.k_scale = to.k_scale, args_.v_scale = to.v_scale;
  args_.k_zero = to.k_zero, args_.v_zero = to.v_zero;
}

void BenchAppend::call(const Op &op) {
  check(fa_append(op.get(), gpu_ ? &gpu_->args : &args_));
  if (c_.cold) advance();
}

double BenchAppend::copy_seconds(int32_t threads) {
  const size_t bytes = source_.bytes.size();
  copied_ = copied_ + 2 * bytes <= target_.bytes.size() ? copied_ + bytes : 0;
  const MemoryMove move = {source_.bytes.data(), bytes, target_.bytes.data() + copied_};
  return move_seconds({&move, 1}, threads);
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

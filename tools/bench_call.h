// The calls of `fa bench` but attention itself: workspaces, the backward pass of a case, merges and appends.
#pragma once

#include <fa.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bench_cache.h"
#include "bench_case.h"
#include "gpu.h"
#include "library.h"
#include "npy.h"
#include "work.h"

namespace fa::tool {

/// A workspace for as long as it lives.
class BenchWorkspace {
 public:
  /// The workspace of a call that needs this many bytes: nullptr for none.
  void *allocate(size_t bytes);

 private:
  std::vector<std::byte> memory_;
};

/// Five products instead of two, three of which are as wide as queries.
inline double backward_of_forward(const BenchCase &c) {
  return static_cast<double>(3 * c.dim + 2 * c.dim_v) / static_cast<double>(c.dim + c.dim_v);
}

/// fa_merge of as many results as a case says.
class BenchMerge {
 public:
  BenchMerge(const BenchCase &c, const Op &op, int32_t device_index);
  BenchMerge(const BenchMerge &) = delete;
  BenchMerge &operator=(const BenchMerge &) = delete;

  void call(const Op &op) const { check(fa_merge(op.get(), gpu_ ? &gpu_->args : &args_)); }
  void wait() const {
    if (gpu_) gpu_->wait();
  }

  /// A product and a sum for each element of each part; every tensor once.
  static Work work(const BenchCase &c);

 private:
  std::vector<Array> parts_, part_lses_;
  Array out_, lse_;
  std::vector<fa_tensor> outs_, lses_;
  fa_merge_args args_;
  std::optional<OnGpu<fa_merge_args>> gpu_;
};

/// fa_append of a case's new rows: to the end of its cache, or where caches are cold to each place of each in order.
class BenchAppend {
 public:
  BenchAppend(const BenchCase &c, const Op &op, int32_t device_index);
  BenchAppend(const BenchAppend &) = delete;
  BenchAppend &operator=(const BenchAppend &) = delete;

  void call(const Op &op);
  void wait() const {
    if (gpu_) gpu_->wait();
  }

  /// Seconds of memcpy of as many bytes, read and written ones counted; where caches are cold, so is its target.
  double copy_seconds(int32_t threads);

 private:
  void advance();

  const BenchCase c_;
  Array k_, v_;
  BenchCaches caches_;
  Array source_, target_;  // of memcpy
  std::vector<int32_t> lengths_;
  size_t cache_ = 0, copied_ = 0;
  int64_t place_ = 0;
  fa_append_args args_;
  std::optional<OnGpu<fa_append_args>> gpu_;
};

/// Gradients of q, k and v of a forward call.
class BenchGradients {
 public:
  /// Runs the forward call once, for out and lse.
  BenchGradients(const BenchCase &c, const Op &op, const fa_forward_args &forward, int32_t device_index);
  BenchGradients(const BenchGradients &) = delete;
  BenchGradients &operator=(const BenchGradients &) = delete;

  void call(const Op &op) const { check(fa_backward(op.get(), gpu_ ? &gpu_->args : &args_)); }

  /// Until all calls are done.
  void wait() const {
    if (gpu_) gpu_->wait();
  }

 private:
  Array lse_, dout_, dq_, dk_, dv_;
  BenchWorkspace workspace_;
  fa_backward_args args_;
  std::optional<OnGpu<fa_backward_args>> gpu_;
};

}  // namespace fa::tool

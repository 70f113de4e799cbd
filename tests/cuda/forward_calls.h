// Forward calls of any size, and devices to plan them for.
#pragma once

#include <cstring>

#include "cuda/forward_plan.h"
#include "cuda/inputs.h"
#include "reference/random.h"

namespace fa::cuda {

/// The narrowest image of a family that supports this head dimension, of any architecture.
inline KernelSet image_of(const char *family, int dim) {
  const Image *found = nullptr, *combine = nullptr;
  for (const Image &image : images()) {
    if (image.has(kernels::Entry::combine)) combine = &image;
    if (std::strcmp(image.family_name, family) == 0 && image.dim >= dim && (!found || image.dim < found->dim))
      found = &image;
  }
  return {{found}, 1, combine};
}

inline Device device_of(int sm_count) {
  Device device = {};
  device.capability = 80;
  device.sm_count = sm_count;
  device.shared_per_block = 163 << 10;
  device.shared_per_sm = 164 << 10;
  device.threads_per_sm = 2048;
  return device;
}

/// As an H200: its memory delivers more than one block of a decode gets through.
inline Device fast_device(double memory_rate = 18.4) {
  Device device = device_of(132);
  device.capability = 90;
  device.shared_per_block = 227 << 10;
  device.shared_per_sm = 228 << 10;
  device.memory_rate = memory_rate;
  return device;
}

/// Contiguous q, k, v and out in (batch, row, head, dim) order, of f16.
struct Shaped {
  Attention attention;
  ForwardCall problem;

  Shaped(int64_t batch, int64_t rows_q, int64_t rows_k, int64_t heads_q, int64_t heads_kv, int64_t dim) {
    attention.q_dtype = attention.kv_dtype = attention.out_dtype = FA_F16;
    attention.head_dim = attention.head_dim_v = dim;
    attention.scale = 0.125f;
    problem.batch = batch, problem.heads_q = heads_q, problem.heads_kv = heads_kv;
    problem.rows_q = problem.max_seqlen_q = rows_q;
    problem.rows_k = problem.max_seqlen_k = rows_k;
    const auto view = [&](int64_t rows, int64_t heads) {
      View v;
      v.data = reinterpret_cast<char *>(uintptr_t{4096});
      v.dtype = FA_F16;
      const int64_t row = heads * dim * 2;
      v.stride[0] =
          static_cast<int64_t>(static_cast<uint64_t>(rows) * static_cast<uint64_t>(row));  // not stepped where packed
      v.stride[1] = row, v.stride[2] = dim * 2, v.stride[3] = 2;
      return v;
    };
    problem.q = problem.out = view(rows_q, heads_q);
    problem.k = problem.v = view(rows_k, heads_kv);
  }

  const ForwardCall &get() {
    problem.attention = &attention;
    return problem;
  }
};

inline int64_t bound_of(const ForwardCall &call, const KernelSet &kernels, const Device &device) {
  return number(workspace_bound(call, kernels, device));
}

/// A problem of random size, packed or not, whose bounds a test may raise.
inline Shaped random_shape(reference::Random *random) {
  const int64_t heads_kv = random->between(1, 9), group = random->one_of(1, 2, 4, 7);
  const bool decode = random->chance(50);
  Shaped s(random->between(1, 70), decode ? random->between(1, 4) : random->between(1, 5000), random->between(0, 40000),
           heads_kv * group, heads_kv, random->one_of(8, 64, 100));
  static const int32_t cumulative = 0;
  if (random->chance(30)) {
    s.problem.cu_seqlens_q = &cumulative;
    s.problem.max_seqlen_q = random->between(1, s.problem.rows_q);
  }
  s.attention.batch_invariant = random->chance(20);
  if (!s.attention.batch_invariant && random->chance(50)) s.problem.num_splits = int32_t(random->between(1, 1024));
  return s;
}

}  // namespace fa::cuda

// Calls of attention on GPUs that exist, as plans: their shapes, and what follows from the devices' published figures.
#pragma once

#include <string>
#include <vector>

#include "core/problem.h"
#include "cuda/plan.h"

namespace fa::dram {

struct Gpu {
  const char *name;
  int sm, sms, shared_per_sm, threads_per_sm;
  int64_t l2_bytes;
  int l2s;           // each keeps what its own multiprocessors read
  double bandwidth;  // of the memory, GB/s
  double peak;       // TFLOP/s of f16, sums in f32

  cuda::Device device() const;
};

// Data sheets and white papers; peaks of GeForce with sums in f32.
constexpr int64_t mib = 1 << 20;
constexpr int kib = 1 << 10;
constexpr Gpu t4 = {"T4", 75, 40, 64 * kib, 1024, 4 * mib, 1, 320, 65};
constexpr Gpu a10 = {"A10", 86, 72, 100 * kib, 1536, 6 * mib, 1, 600, 125};
constexpr Gpu l4 = {"L4", 89, 58, 100 * kib, 1536, 48 * mib, 1, 300, 121};
constexpr Gpu rtx4090 = {"RTX 4090", 89, 128, 100 * kib, 1536, 72 * mib, 1, 1008, 165};
constexpr Gpu a100 = {"A100", 80, 108, 164 * kib, 2048, 40 * mib, 2, 1555, 312};
constexpr Gpu h100 = {"H100", 90, 132, 228 * kib, 2048, 50 * mib, 2, 3352, 989};

/// f16, contiguous in (batch, row, head, dimension) order.
struct Call {
  Gpu gpu;
  int64_t batch, rows_q, rows_k, heads_q, heads_kv, dim;
  bool causal = false;
  int32_t splits = 0;
  std::vector<int32_t> lengths = {};  // of packed sequences, queries and keys alike; then batch and rows are their own

  std::string text() const;
};

/// A call's plan, and what it points to.
class Planned {
 public:
  explicit Planned(const Call &call);
  Planned(const Planned &) = delete;
  Planned &operator=(const Planned &) = delete;

  cuda::Plan plan;

 private:
  Attention attention_;
  Problem problem_;
  std::vector<int32_t> cumulative_;
  cuda::Image image_;
};

}  // namespace fa::dram

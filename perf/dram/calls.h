// Calls of attention on GPUs that exist, as plans: their shapes, and the devices' published figures.
#pragma once

#include <string>
#include <vector>

#include "core/call.h"
#include "cuda/forward_plan.h"

namespace fa::dram {

struct Gpu {
  const char *name;
  int sm, sms, shared_per_sm, threads_per_sm;
  int64_t l2_bytes;
  int l2s;           // each keeps the data of its own multiprocessors
  double bandwidth;  // of the memory, GB/s
  double peak;       // TFLOP/s of f16, sums in f32
  double clock;      // GHz, to which the peak belongs

  cuda::Device device() const;
};

// Data sheets and white papers; peaks of GeForce with sums in f32.
constexpr int64_t mib = 1 << 20;
constexpr int kib = 1 << 10;
constexpr Gpu t4 = {"T4", 75, 40, 64 * kib, 1024, 4 * mib, 1, 320, 65, 1.59};
constexpr Gpu a10 = {"A10", 86, 72, 100 * kib, 1536, 6 * mib, 1, 600, 125, 1.695};
constexpr Gpu l4 = {"L4", 89, 58, 100 * kib, 1536, 48 * mib, 1, 300, 121, 2.04};
constexpr Gpu rtx4090 = {"RTX 4090", 89, 128, 100 * kib, 1536, 72 * mib, 1, 1008, 165, 2.52};
constexpr Gpu a100 = {"A100", 80, 108, 164 * kib, 2048, 40 * mib, 2, 1555, 312, 1.41};
constexpr Gpu h100 = {"H100", 90, 132, 228 * kib, 2048, 50 * mib, 2, 3352, 989, 1.83};
constexpr Gpu h200 = {"H200", 90, 132, 228 * kib, 2048, 50 * mib, 2, 4800, 989, 1.83};
constexpr Gpu rtx_pro_6000 = {"RTX PRO 6000", 120, 188, 100 * kib, 1536, 128 * mib, 1, 1792, 500, 2.6};
constexpr Gpu b200 = {"B200", 100, 148, 228 * kib, 2048, 126 * mib, 2, 8000, 2250, 1.965};
constexpr Gpu gpus[] = {t4, a10, l4, rtx4090, a100, h100, h200, rtx_pro_6000, b200};

/// f16, contiguous in (batch, row, head, dimension) order.
struct Call {
  Gpu gpu;
  int64_t batch, rows_q, rows_k, heads_q, heads_kv, dim;
  bool causal = false;
  int32_t splits = 0;
  std::vector<int32_t> lengths = {};  // of packed sequences, queries and keys alike; then batch and rows are their own
  int32_t page = 0;                   // keys of a page; 0: not paged
  float softcap = 0;                  // 0: none
  bool alibi = false, bias = false;   // the bias is one for all sequences and heads
  int64_t dim_v = 0;                  // of values; 0: dim
  bool warpgroups = false;  // first kernels/forward/wgmma, which an SM 90 has, or tcgen05, which an SM 100 has

  std::string text() const;
};

/// A call's plan, and the memory that it points to.
class Planned {
 public:
  explicit Planned(const Call &call);
  Planned(const Planned &) = delete;
  Planned &operator=(const Planned &) = delete;

  cuda::ForwardPlan plan;

 private:
  Attention attention_;
  ForwardCall problem_;
  void set_hand_out(const Call &call);
  void set_pages(const Call &call);
  void set_features(const Call &call);

  std::vector<int32_t> cumulative_, pages_;
  float slope_ = 0.5f;
  cuda::Image images_[3];  // wgmma or tcgen05, mma, combine
};

}  // namespace fa::dram

// The thread that starts the five products of a step.
#pragma once

#include "backward/tcgen05/block.cuh"

namespace fa::kernels::backward_tcgen05 {

template <class B>
class Products {
 public:
  __device__ explicit Products(const SharedMemory<B> &shared) : shared_(shared), state_(*shared.state) {}

  __device__ void run() {
    const uint32_t steps = uint32_t(state_.tiles.high - state_.tiles.low) * state_.group;
    wait(state_.kv_full, 0);
    multiply_keys(0);
#pragma unroll 1
    for (uint32_t n = 0; n < steps; n++) {
      wait(state_.stats_full[n % B::stages], n / B::stages);
      const Pairs pairs = state_.pairs[n % 4];
      wait(state_.do_full[n % B::dout_stages], n / B::dout_stages);
      multiply_values(n);
      add_dv(n);
      release(state_.do_empty[n % B::dout_stages]);
      if (n + 1 < steps) multiply_keys(n + 1);
      wait(state_.ds_full, n);
      tcgen05_fence_after_thread_sync();
      add_dk(n);
      release(state_.q_empty[n % B::stages]);
      if (pairs != Pairs::careful_of_keys) multiply_ds();
      release(state_.dq_full);
    }
    release(state_.sums_full);
  }

 private:
  using Own = SharedOperand<typename B::OwnTile>;
  using Streamed = SharedOperand<typename B::StreamedTile>;
  using Ds = SharedOperand<typename B::DsTile>;

  /// A bit of an instruction descriptor: A's rows are the tile's columns in shared memory.
  static constexpr uint32_t transposed_a = 1u << 15;
  static constexpr uint32_t to_scores = instruction_descriptor<typename B::Element, B::columns, false>();
  static constexpr uint32_t to_sums = instruction_descriptor<typename B::Element, B::dim, true>();

  /// Once by the products, once by this thread: a commit says nothing of what the thread has read and waited for, as
  /// of tiles that other warps have cleared.
  __device__ static void release(uint64_t &barrier) {
    tcgen05_commit(shared_address(&barrier));
    mbarrier_arrive(shared_address(&barrier));
  }

  /// An operand that the compiler takes for another one at each call: it would compute the descriptors of all products
  /// ahead of the loop, and spill them.
  template <class Operand>
  __device__ __forceinline__ static Operand operand(uint32_t tile) {
    asm volatile("" : "+r"(tile));
    return Operand(tile);
  }

  /// S^T = K Q^T.
  __device__ __forceinline__ void multiply_keys(uint32_t n) const {
    wait(state_.q_full[n % B::stages], n / B::stages);
    const Own k = operand<Own>(shared_.k());
    const Streamed q = operand<Streamed>(shared_.q(n % B::stages));
    unroll<B::dim / 16>([&](int i) { tcgen05_mma(Columns<B>::s, k.rows(i), q.rows(i), to_scores, i > 0); });
    tcgen05_commit(shared_address(&state_.s_full));
  }

  /// dP^T = V dO^T, once dQ of the step before has left its place.
  __device__ __forceinline__ void multiply_values(uint32_t n) const {
    wait(state_.dq_empty, n ^ 1);
    tcgen05_fence_after_thread_sync();
    const Own v = operand<Own>(shared_.v());
    const Streamed dout = operand<Streamed>(shared_.dout(n % B::dout_stages));
    unroll<B::dim / 16>([&](int i) { tcgen05_mma(Columns<B>::dp, v.rows(i), dout.rows(i), to_scores, i > 0); });
    release(state_.dp_full);  // also of dS in shared memory, which has been read
  }

  /// dV += P^T dO.
  __device__ __forceinline__ void add_dv(uint32_t n) const {
    wait(state_.p_full, n);
    tcgen05_fence_after_thread_sync();
    add_weighted(Columns<B>::dv, Columns<B>::s, shared_.dout(n % B::dout_stages), n > 0);
  }

  /// dK += dS^T Q.
  __device__ __forceinline__ void add_dk(uint32_t n) const {
    add_weighted(Columns<B>::dk, Columns<B>::dp, shared_.q(n % B::stages), n > 0);
  }

  __device__ __forceinline__ static void add_weighted(uint32_t sum, uint32_t weights, uint32_t streamed,
                                                      bool accumulate) {
    const Streamed rows = operand<Streamed>(streamed);
    unroll<B::columns / 16>([&](int k) {
      tcgen05_mma(sum, Columns<B>::weights(weights, k), rows.columns(k), to_sums, accumulate || k > 0);
    });
  }

  /// dQ = dS K.
  __device__ __forceinline__ void multiply_ds() const {
    const Ds ds = operand<Ds>(shared_.ds());
    const Own k = operand<Own>(shared_.k());
    unroll<B::rows / 16>(
        [&](int i) { tcgen05_mma(Columns<B>::dq, ds.columns(i), k.columns(i), to_sums | transposed_a, i > 0); });
  }

  const SharedMemory<B> &shared_;
  State<B> &state_;
};

}  // namespace fa::kernels::backward_tcgen05

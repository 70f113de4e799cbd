// Warpgroups that share their rows (Shape::shares_rows): each has half of the keys of every tile for S and l, and half
// of the columns of O. The two warps with the same 16 rows are partners. They exchange weights, as products with values
// need those of all keys, and numbers of rows, so that both find the same m and l.
#pragma once

#include "forward/wgmma/block.cuh"

namespace fa::kernels::wgmma {

/// Of a warp that shares its rows with no other.
template <class B, bool = B::shape.shares_rows>
class Partner {
 public:
  __device__ explicit Partner(const SharedMemory<B> &) {}

  __device__ static bool any(bool x) { return x; }
  __device__ static typename B::Rows max(const typename B::Rows &x) { return x; }
  __device__ static float sum(float x) { return x; }
  __device__ static void sync() {}
};

template <class B>
class Partner<B, true> {
  using Rows = typename B::Rows;

 public:
  __device__ explicit Partner(const SharedMemory<B> &shared) : shared_(shared), messages_(shared.messages) {}

  /// Whether x, which is uniform in each warp, holds in either.
  __device__ static bool any(bool x) { return bar_red_or(barrier(), 64, x); }

  /// Waits for the other warp. Each then sees all that the other has written.
  __device__ static void sync() { bar_sync(barrier(), 64); }

  /// The larger of each lane's number and that of the partner's lane.
  __device__ Rows max(const Rows &x) {
    const uint4 own[1] = {{__float_as_uint(x[0]), __float_as_uint(x[1]), 0, 0}};
    uint4 other[1];
    exchange(own, other);
    return {fmaxf(x[0], __uint_as_float(other[0].x)), fmaxf(x[1], __uint_as_float(other[0].y))};
  }

  /// Both warps get the same bits.
  __device__ float sum(float x) {
    const uint4 own[1] = {{__float_as_uint(x), 0, 0, 0}};
    uint4 other[1];
    exchange(own, other);
    return x + __uint_as_float(other[0].x);
  }

  /// Each lane gets the words of the partner's lane.
  template <int Count>
  __device__ __forceinline__ void exchange(const uint4 (&own)[Count], uint4 (&other)[Count]) {
    static_assert(Count * 32 * 16 <= B::message_bytes);
    const uint32_t thread = mov_tid_x();  // not kept in a register
    const uint32_t at = messages_ + thread / 32 % 4 * (2 * B::messages_of_warp * B::message_bytes) + thread % 32 * 16;
    const uint32_t group = B::group() * B::message_bytes;
    unroll<Count>([&](int i) { st_shared_v4_b32(at + group + i * (32 * 16), own[i]); });
    sync();
    unroll<Count>([&](int i) { other[i] = ld_shared_v4_b32(at + (B::message_bytes - group) + i * (32 * 16)); });
    if (B::messages_of_warp == 2)  // the other places, whose messages were read before this barrier
      messages_ = 2 * shared_.messages + 2 * B::message_bytes - messages_;
    else
      sync();
  }

 private:
  __device__ static int barrier() { return partners + mov_tid_x() / 32 % 4; }

  const SharedMemory<B> &shared_;
  uint32_t messages_;  // of the first pair of warps, at their next places
};

}  // namespace fa::kernels::wgmma

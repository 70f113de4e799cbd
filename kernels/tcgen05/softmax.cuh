// A warpgroup that weighs: the scores of its tile of queries, a row a thread, become weights. Softmax::step has the
// lines of the algorithm between both products.
#pragma once

#include <cfloat>

#include "common/weights.cuh"
#include "tcgen05/block.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
constexpr float most = lift(B::dtype) + slack(B::dtype);

/// Of a thread's row: -m, as it is added, and l.
template <class B>
struct OnlineSoftmax {
  float c;  // a score is x / log2 e
  bool exact;
  Final row = {FLT_MAX, 0};  // finite: 2^(-inf - m) is 0, not NaN

  /// m' = max(m, top), l = l a, if the row has moved by more than the slack. a: what O is to be multiplied by.
  __device__ __forceinline__ float raise_maximum(float top) {
    if (!(exponent(top, c, row.minus_m, exact) > most<B>)) return 1;
    const float unit = exact ? c : 1, before = row.minus_m, t = top * (exact ? 1 : c);
    const float now = fabsf(t * unit) < far ? __fdividef(lift(B::dtype), unit) - t : -t;
    const float a = ex2_approx_ftz((now - before) * unit);
    // Sums of weights that were not exact, though they had to be, are worth nothing: the row is worked on again.
    const bool lost = !exact && fabsf(before) >= far && row.l != 0;
    row.minus_m = now;
    row.l *= lost ? nan_value() : a;
    return a;
  }

  /// P = 2^(c S - m').
  __device__ __forceinline__ float weight(float x) const { return ex2_approx_ftz(exponent(x, c, row.minus_m, exact)); }
};

template <class B>
class Softmax {
 public:
  /// t: of the tiles of queries.
  __device__ Softmax(const Params &p, const SharedMemory<B> &shared, int t)
      : p_(p), state_(*shared.state), columns_{state_.tensor_memory}, t_(t) {}

  __device__ void run() {
    const auto release = [&] { arrive_as_warp(state_.q_empty); };
    for_each_item(
        state_,
        [&](const Item &item) {
          release();
          if (t_ < tiles_of(item.work)) attend(item);
        },
        release);
  }

 private:
  static constexpr int chunk = 32;  // columns that are read or written at a time

  __device__ void attend(const Item &item) {
    const Interval keys = keys_of_row<B>(p_, item.work, row_of_thread(item.work, t_));
    OnlineSoftmax<B> softmax = {p_.scale * log2_e, item.run == Run::repair && far_};
    // Of keys that all rows of the warp attend.
    const Interval whole = {max_over_warp(keys.low), min_over_warp(keys.high)};
    const TileRange tiles = item.tiles;
#pragma unroll 1
    for (int tile = tiles.end - 1; tile >= tiles.first; tile--) {
      const int first = tile * B::keys;
      const bool is_first = tile == tiles.end - 1;
      if (first >= whole.low && first + B::keys <= whole.high)
        step<false>(softmax, is_first, {});
      else
        step<true>(softmax, is_first, {keys.low - first, keys.high - first});
    }
    far_ = is_far(keys, softmax.row);
    finals_.wait(state_.finals_empty, t_);
    state_.finals[t_][threadIdx.x % rows_of_tile] = softmax.row;
    arrive_as_warp(state_.finals_full[t_]);
  }

  /// A tile's scores to weights; columns: those that the row attends.
  template <bool Masked>
  __device__ __forceinline__ void step(OnlineSoftmax<B> &softmax, bool is_first, Interval columns) {
    uint32_t x[B::keys];
    scores_.wait(state_.s_full, t_);
    tcgen05_fence_after_thread_sync();
    const typename B::Scores s = columns_.scores(t_);
    unroll<B::keys / chunk>([&](int i) { tcgen05_ld_32x32b_x32(x + chunk * i, s.of_warp(chunk * i)); });
    tcgen05_wait_ld(x);
    const auto score = [&](int i) { return __uint_as_float(x[i]); };
    if constexpr (Masked) {
      unroll<B::keys>([&](int i) {
        if (!columns.holds(i)) x[i] = __float_as_uint(-infinity);
      });
    }
    float top[4] = {score(0), score(1), score(2), score(3)};
    unroll<B::keys / 4>([&](int i) { unroll<4>([&](int j) { top[j] = fmaxf(top[j], score(4 * i + j)); }); });
    const float a = softmax.raise_maximum(fmaxf(fmaxf(top[0], top[1]), fmaxf(top[2], top[3])));
    if (!is_first) {
      scales_.wait(state_.scales_empty, t_);
      state_.scales[t_][threadIdx.x % rows_of_tile] = a;
      arrive_as_warp(state_.scales_full[t_]);
    }
    float l[4] = {0, 0, 0, 0};
    const typename B::Weights p = columns_.weights(t_);
    unroll<B::keys / (2 * chunk)>([&](int i) {
      uint32_t word[chunk];
      unroll<chunk>([&](int j) {
        const int k = 2 * (chunk * i + j);
        const float low = softmax.weight(score(k)), high = softmax.weight(score(k + 1));
        l[j % 2 * 2] += low, l[j % 2 * 2 + 1] += high;
        word[j] = pack<typename B::Element>(low, high);
      });
      tcgen05_st_32x32b_x32(p.of_warp(chunk * i), word);
    });
    softmax.row.l += (l[0] + l[1]) + (l[2] + l[3]);
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    arrive_as_warp(state_.p_full[t_]);
  }

  const Params &p_;
  State<B> &state_;
  Columns<B> columns_;
  int t_;
  Phases scores_, scales_ = {~0u}, finals_ = {~0u};  // the places of the latter are free at first
  bool far_ = false;                                 // the row of the run before, where it is followed by a repair
};

}  // namespace fa::kernels::tcgen05

// A softmax warpgroup: computes weights of the scores of its tile of queries, a row a thread. Softmax::step has the
// lines of the algorithm between both products.
#pragma once

#include <cfloat>

#include "collective/rescale.cuh"
#include "common/packed.cuh"
#include "forward/tcgen05/score_mod.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
constexpr float rescale_limit = Element<B::dtype>::max_offset + Element<B::dtype>::rescale_threshold;

/// Limits of sums, where weights have f32's exponents. There a row computes no maximum once it has a reference: a sum
/// of a row above max_row_sum moves it. A tile whose sum is above large_sum is summed again as its weights were
/// rounded, and one above lost_sum sends the row to the fix-up pass, as sums of values up to 2^87 must not overflow.
constexpr float max_row_sum = 0x1p24f, large_sum = 0x1p8f, lost_sum = 0x1p40f, lost_exponent = 40;

/// -m and l of a thread's row. exact: weights are 2^((x - m) c) in place of 2^(c x - m), as large scores need.
template <class B>
struct OnlineSoftmax {
  float c;
  FinalStats row = {FLT_MAX, 0};     // finite: 2^(-inf - m) is 0, not NaN
  float minus_m_in_range = FLT_MAX;  // -m, scaled as polynomials take exponents

  /// m' = max(m, top), l = l a, if the row has moved by more than rescale_threshold. a: the factor for O. top: NaN
  /// if a score is.
  __device__ __forceinline__ float update_row_max(float top, bool exact) {
    if (exponent(top, c, row.neg_max, exact) <= rescale_limit<B>) return 1;
    const float unit = exact ? c : 1, before = row.neg_max, t = top * (exact ? 1 : c);
    // Polynomials do not tell NaN from scores far below an infinite m: the row's sum becomes NaN, which the fix-up pass
    // sees.
    if (!is_finite(t)) row.l = nan_value();
    if (isnan(t)) return 1;
    set_reference(fabsf(t * unit) < exact_score_threshold ? __fdividef(Element<B::dtype>::max_offset, unit) - t : -t,
                  exact);
    const float a = ex2_approx_ftz((row.neg_max - before) * unit);
    // The row needed exact weights and did not have them: NaN makes the fix-up pass recompute it.
    const bool invalid = !exact && fabsf(before) >= exact_score_threshold && row.l != 0;
    row.l *= invalid ? nan_value() : a;
    return a;
  }

  __device__ bool has_reference() const { return row.neg_max != FLT_MAX; }

  /// update_row_max by the row's sum: m' = m + log2 l where l exceeds the limit.
  __device__ __forceinline__ float rescale_by_sum() {
    if (!(row.l > max_row_sum) || !is_finite(row.l)) return 1;
    const float before = row.neg_max;
    set_reference(before - float((__float_as_int(row.l) >> 23) - 127));
    const float a = ex2_approx_ftz(row.neg_max - before);
    row.l *= a;
    return a;
  }

  /// Replaces a tile's part of l, `sum`, by the sum of its rounded weights, so that the rounding of a dominant weight
  /// does not show in the output. The reference takes the difference, so that lse stays.
  __device__ __forceinline__ void round_sum(float sum, float rounded) {
    const float before = row.l, after = before - sum + rounded;
    row.l = sum <= lost_sum ? after : nan_value();
    set_reference(row.neg_max + __log2f(__fdividef(after, before)));
  }

  /// Marks the row for the fix-up pass where a polynomial's argument is NaN or out of range.
  __device__ __forceinline__ void check_range(float top_of_polynomials) {
    if (!(fmaf(top_of_polynomials, c, row.neg_max) <= lost_exponent)) row.l = nan_value();
  }

  /// The exponents of two scores' weights.
  __device__ __forceinline__ float2 exponents(float2 x) const {
    return fma_rn_f32x2(x, {c, c}, {row.neg_max, row.neg_max});
  }

  /// exponents of a row that may be exact.
  __device__ __forceinline__ float2 exponents(float2 x, bool exact) const {
    const float before = exact ? row.neg_max : 0, behind = exact ? 0 : row.neg_max;
    return fma_rn_f32x2(add_rn_f32x2(x, {before, before}), {c, c}, {behind, behind});
  }

  __device__ __forceinline__ void set_reference(float now, bool exact = false) {
    // Rounded so that adding it to an exponent of either kind is exact.
    if (!exact) now = __fadd_rn(__fadd_rn(now, -least_exponent), least_exponent);
    row.neg_max = now;
    minus_m_in_range = __fadd_rn(now, -least_exponent) / exponent_range;
  }

  /// The exponent of a weight, for polynomials.
  __device__ __forceinline__ float in_range(float x) const {
    return fma_rn_sat_f32(x, c / exponent_range, minus_m_in_range);
  }
  __device__ __forceinline__ float in_range(float x, bool exact) const {
    const float behind = exact ? -least_exponent / exponent_range : minus_m_in_range;
    return fma_rn_sat_f32(__fadd_rn(x, exact ? row.neg_max : 0), c / exponent_range, behind);
  }
};

template <class B>
class Softmax {
 public:
  /// t: of the tiles of queries.
  __device__ Softmax(const Params &p, const SharedMemory<B> &shared, int t)
      : p_(p),
        state_(*shared.state),
        t_(t),
        barriers_(in_register_of_warp(shared_address(&state_.s_full[t]))),
        scale_(in_register_of_lane(shared_address(&state_.scales[t][threadIdx.x % rows_of_tile]))),
        scores_(in_register_of_warp(Columns<B>::scores(t).of_warp(0))) {}

  __device__ void run() {
    const auto release = [&] { arrive_as_warp(state_.q_empty); };
    for_each_item(
        state_,
        [&](const WorkItem &item) {
          release();
          if (t_ < tiles_of<B>(p_, item.work)) attend(item);
        },
        release);
  }

 private:
  static constexpr int tiles_of_own = tiles_of_scores / B::queries;  // tiles of scores that this warpgroup has
  enum Phase { scores, scales = scores + tiles_of_own, final_stats };
  static constexpr int chunk = 32;  // columns that are read or written at a time

  /// Pairs of scores whose exponentials are left to multiply-adds: one pair in ex2_emu_freq, evenly spaced,
  /// the same in every row.
  __device__ static constexpr bool is_polynomial(int k) {
    constexpr int of = B::shape.ex2_emu_freq;
    return of != 0 && k / 2 % (of != 0 ? of : 1) == of - 1;
  }

  /// Not with score_mod, whose scores change much from key to key, nor where loads find the maxima at no cost.
  static constexpr bool follows_sums = Element<B::dtype>::f32_exponents && !B::score_mod && !this_arch.has(tmem_max);

  /// Where scores are loaded unchanged; maxima of masked tiles are computed, as hidden scores do not count.
  static constexpr bool loads_find_maxima = this_arch.has(tmem_max) && !B::score_mod;

  /// The largest number; NaN if one is NaN.
  template <int N>
  __device__ static float largest_of(const uint32_t (&x)[N]) {
    constexpr int chains = N < 4 ? N : 4;
    float top[chains];
    unroll<chains>([&](int i) { top[i] = __uint_as_float(x[i]); });
    unroll<N - chains>([&](int i) { top[i % chains] = max_nan_f32(top[i % chains], __uint_as_float(x[chains + i])); });
    float all = top[0];
    unroll<chains - 1>([&](int i) { all = max_nan_f32(all, top[1 + i]); });
    return all;
  }

  /// The sum of a row's weights, as they are in tensor memory.
  __device__ static float sum_of_weights(uint32_t from) {
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < B::keys / 2; i += 16) {
      uint32_t word[16];
      tcgen05_ld_32x32b_x16(word, from + i);
      tcgen05_wait_ld(word);
      unroll<16>([&](int j) {
        sum += __uint_as_float(word[j] << 16) + __uint_as_float(word[j] & 0xffff0000);  // two of bf16
      });
    }
    return sum;
  }

  /// The largest of the scores whose exponentials are polynomials.
  __device__ static float largest_of_polynomials(const uint32_t (&x)[B::keys]) {
    constexpr int of = 2 * B::shape.ex2_emu_freq, pairs = B::keys / of;
    uint32_t y[2 * pairs];
    unroll<pairs>([&](int i) { y[2 * i] = x[of * (i + 1) - 2], y[2 * i + 1] = x[of * (i + 1) - 1]; });
    return largest_of(y);
  }

  __device__ void attend(const WorkItem &item) {
    const int32_t row = row_of_thread<B>(p_, item.work, t_);
    const Interval keys = keys_of_row<B>(p_, item.work, row);
    const ScoreMod<B> changes(p_, item.work, row);
    OnlineSoftmax<B> softmax = {in_register_of_warp(unit<B>(p_) * log2_e)};
    const bool is_fixup = item.pass == WorkPass::fixup, exact = is_fixup && needs_exact_;
    // Tiles all of whose keys all rows of the warp attend.
    const Interval whole = {in_register_of_warp((max_over_warp(keys.low) + B::keys - 1) / B::keys),
                            in_register_of_warp(is_fixup ? 0 : min_over_warp(keys.high) / B::keys)};
    const KeyBlockRange tiles = item.tiles;
    bool max_initialized = false;  // all rows of the warp have a reference
#pragma unroll 1
    for (int tile = tiles.end - 1; tile >= tiles.first; tile--) {
      const int first = tile * B::keys;
      const int iteration = tiles.end - 1 - tile;
      const Interval columns = {keys.low - first, keys.high - first};
      if (max_initialized && whole.holds(tile)) {
        step<true, false>(softmax, changes, first, iteration, columns, false);
        continue;
      }
      if (whole.holds(tile))
        step<true, true>(softmax, changes, first, iteration, columns, false);
      else
        step<false, true>(softmax, changes, first, iteration, columns, exact);
      if constexpr (follows_sums) max_initialized = __all_sync(~0u, softmax.has_reference());
    }
    needs_exact_ = needs_exact_weights(keys, softmax.row);
    phases_.wait(state_.final_stats_empty[t_], final_stats);
    state_.final_stats[t_][threadIdx.x % rows_of_tile] = softmax.row;
    arrive_as_warp(state_.final_stats_full[t_]);
  }

  /// A tile's scores to weights; first: its first key; columns: those that the row attends. Whole: all rows of the warp
  /// attend all columns, and none is exact. Seeks: computes maxima; else all rows have a reference, which follows their
  /// sums. All versions give the same bits.
  template <bool Whole, bool Seeks>
  __device__ __forceinline__ void step(OnlineSoftmax<B> &softmax, const ScoreMod<B> &changes, int first, int iteration,
                                       Interval columns, bool exact) {
    uint32_t x[B::keys];
    const int at = iteration % tiles_of_own;
    phases_.wait(barrier(state_.s_full) + 8 * at, scores + at);
    tcgen05_fence_after_thread_sync();
    const uint32_t s = scores_ + at * B::keys;
    float top = 0;
    if constexpr (Whole && loads_find_maxima) {
      uint32_t largest[B::keys / chunk];
      unroll<B::keys / chunk>(
          [&](int i) { tcgen05_ld_red_max_nan_32x32b_x32(x + chunk * i, largest + i, s + chunk * i); });
      tcgen05_wait_ld(x, largest);
      top = largest_of(largest);
    } else {
      unroll<B::keys / chunk>([&](int i) { tcgen05_ld_32x32b_x32(x + chunk * i, s + chunk * i); });
      tcgen05_wait_ld(x);
      changes.make(x, first);
      if constexpr (!Whole) {
        unroll<B::keys>([&](int i) {
          if (!columns.holds(i)) x[i] = __float_as_uint(-infinity);
        });
      }
      if constexpr (Seeks) top = largest_of(x);
    }
    const auto score = [&](int i) { return __uint_as_float(x[i]); };
    float a;
    if (follows_sums && !exact && (!Seeks || softmax.has_reference())) {
      a = softmax.rescale_by_sum();
      if constexpr (B::shape.ex2_emu_freq != 0) softmax.check_range(largest_of_polynomials(x));
    } else {
      a = softmax.update_row_max(top, exact);
    }
    if (iteration > 0) {
      phases_.wait(barrier(state_.scales_empty), scales);
      st_shared_f32(scale_, a);
      arrive_as_warp(barrier(state_.scales_full));
    }
    float2 l[2] = {};
    unroll<B::keys / chunk>([&](int i) {
      uint32_t word[chunk / 2];
      unroll<chunk / 2>([&](int j) {
        const int k = chunk * i + 2 * j;
        const float2 pair = {score(k), score(k + 1)};
        float2 weights;
        if (is_polynomial(k)) {
          const float2 y = Whole ? float2{softmax.in_range(pair.x), softmax.in_range(pair.y)}
                                 : float2{softmax.in_range(pair.x, exact), softmax.in_range(pair.y, exact)};
          weights = exp2_polynomial<Element<B::dtype>::exp2_degree>(y);
        } else {
          const float2 e = Whole ? softmax.exponents(pair) : softmax.exponents(pair, exact);
          weights = {ex2_approx_ftz(e.x), ex2_approx_ftz(e.y)};
        }
        l[j % 2] = k < 4 ? weights : add_rn_f32x2(l[j % 2], weights);
        word[j] = pack<typename B::Element>(weights.x, weights.y);
      });
      tcgen05_st_32x32b_x16(s + chunk / 2 * i, word);
      if (B::has_rest && chunk * (i + 1) == B::early_keys) {
        announce_weights(barrier(state_.p_full) + 8 * at);
        // ptxas would compute all weights before it stores the first: the rest depend on an instruction behind them.
        softmax.c = in_register_of_warp(softmax.c);
      }
    });
    const float2 sums = add_rn_f32x2(l[0], l[1]);
    const float sum = sums.x + sums.y;
    softmax.row.l += sum;
    if constexpr (follows_sums) {
      const bool large = !exact && !(sum <= large_sum);
      if (__any_sync(~0u, large)) {
        tcgen05_wait_st();
        const float rounded = sum_of_weights(s);
        if (large) softmax.round_sum(sum, rounded);
      }
    }
    announce_weights(barrier(B::has_rest ? state_.p_rest : state_.p_full) + 8 * at);
  }

  /// Lets products use the weights that this warp has stored.
  __device__ __forceinline__ static void announce_weights(uint32_t barrier) {
    tcgen05_wait_st();
    tcgen05_fence_before_thread_sync();
    arrive_as_warp(barrier);
  }

  /// The address of this tile's of barriers that all tiles have.
  template <int N>
  __device__ uint32_t barrier(const uint64_t (&of)[N]) const {
    return barriers_ + uint32_t(reinterpret_cast<const char *>(of) - reinterpret_cast<const char *>(state_.s_full));
  }

  const Params &p_;
  State<B> &state_;
  int t_;
  uint32_t barriers_, scale_, scores_;                  // addresses; of scores in tensor memory, this warp's lanes
  Phases phases_ = {1u << scales | 1u << final_stats};  // whose slots are free at first
  bool needs_exact_ = false;                            // the row in the detect pass, before a fix-up pass
};

}  // namespace fa::kernels::tcgen05

// From products to weights and to gradients of scores, of the queries of a step and a warpgroup's keys: their
// statistics, and the keys that they attend.
#pragma once

#include "backward/wgmma/products.cuh"
#include "common/numbers.cuh"

namespace fa::kernels::backward_wgmma {

/// The part of a consumer that knows scores.
template <class B>
class StepScores {
 protected:
  using Scores = typename B::Scores;

  /// group: the number of the warpgroup among the consumers.
  __device__ StepScores(const BackwardParams &p, State<B> &state, int group) : p_(p), state_(state), group_(group) {}

  /// Read again at each use, to save registers: the thread's number in its warpgroup, and in its warp.
  __device__ static int thread() { return uint32_t(mov_tid_x()) % 128; }
  __device__ static int lane() { return uint32_t(mov_tid_x()) % 32; }

  /// In n_: the step before has no dS whose dQ is still to be added.
  static constexpr uint32_t no_dq = 1u << 31;
  __device__ uint32_t stage() const { return n_ % B::stages; }
  __device__ uint32_t parity() const { return n_ / B::stages % 2; }

  /// A lane's statistics of two blocks of columns: {-lse log2 e, -delta} of each of its four columns.
  struct Stats {
    float4 block[2];
  };
  __device__ Stats stats(int i) const {
    const uint32_t from =
        shared_address(state_.stats[stage()]) + (16 * i + Scores::first_column(lane())) * int(sizeof(RowStats));
    Stats found;
    unroll<2>([&](int j) {
      const uint4 x = ld_shared_v4_b32(from + 8 * j * int(sizeof(RowStats)));
      found.block[j] = {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)};
    });
    return found;
  }

  /// f(block, statistics) of each block of columns. Statistics are on their way while those before are used.
  template <class F>
  __device__ __forceinline__ void for_each_block(Stats here, F f) const {
    constexpr int pairs = Scores::column_blocks / 2;
    unroll<pairs>([&](int i) {
      const Stats next = i + 1 < pairs ? stats(i + 1) : Stats{};
      unroll<2>([&](int j) { f(2 * i + j, here.block[j]); });
      here = next;
    });
  }

  /// How a step treats pairs that do not attend: there are none; their weights are 0; or these may be multiplied by
  /// elements that are not finite, which must not reach a sum either.
  enum class Pairs { all, masked, careful };

  /// That of a tile, alike in all warps; masked: if S is finite. Where dO has an element that is not finite, so has its
  /// product with the result, unless the caller gave that.
  __device__ Pairs pairs_of(StreamCoord tile) const {
    const auto any_row = [&](auto f) {
      bool any = false;
      unroll<B::columns / 32>([&](int i) { any |= f(state_.stats[stage()][32 * i + lane()]); });
      return __any_sync(~0u, any);
    };
    const int row = tile.tile * B::columns;
    const bool inside = row >= state_.full.low && row + B::columns <= state_.full.high;
    const bool without_keys = any_row([](const RowStats &of) { return of.neg_lse_log2 == -infinity; });
    const bool uneven = has_uneven_rows();
    if (inside && !without_keys && !uneven) return Pairs::all;
    if (without_keys || uneven || p_.given_delta.data != nullptr) return Pairs::careful;
    const auto is_odd = [](const RowStats &of) { return !is_finite(of.neg_lse_log2) || !is_finite(of.neg_dpsum); };
    return any_row(is_odd) ? Pairs::careful : Pairs::masked;
  }

  /// Whether rows of a step have factors.
  __device__ bool has_uneven_rows() const {
    bool any = false;
    if constexpr (B::scales) {
      unroll<B::columns / 32>([&](int i) { any |= state_.ds_scales.of_rows[stage()][32 * i + lane()] != 1; });
      any = __any_sync(~0u, any);
    }
    return any;
  }

  /// Multiplies dS^T by the factors of its rows' queries, or divides it by them.
  template <bool Inverse>
  __device__ __forceinline__ void multiply_by_row_scales(Scores &ds) const {
    const uint32_t first = shared_address(state_.ds_scales.of_rows[stage()]) + Scores::first_column(lane()) * 4;
    unroll<Scores::column_blocks>([&](int j) {
      const float2 two = ld_volatile_shared_v2_f32(first + 32 * j);
      const auto factor = [](float x) { return Inverse ? __int_as_float((2 * 127 << 23) - __float_as_int(x)) : x; };
      unroll<4>([&](int e) { ds.block[0][j].x[e] *= factor(e % 2 ? two.y : two.x); });
    });
  }

  /// Notes the queries that attend each key of the block; none of a key that does not exist. By a warpgroup.
  __device__ void store_query_ranges() const {
    const int key = state_.work.first + thread();
    state_.queries[thread()] =
        key < state_.sequence.keys ? full_query_range(p_, state_.sequence, key, key + 1) : Interval{0, 0};
  }

  /// Notes the keys of the block that each query of a tile attends; none of a row without weights. By the warpgroup.
  __device__ void store_key_ranges(StreamCoord tile) const {
    const int column = thread();
    if (column < B::columns) {
      const int query = tile.tile * B::columns + column;
      const bool any = query < state_.sequence.queries && state_.stats[stage()][column].neg_lse_log2 != -infinity;
      const Interval keys = any ? attended(p_, state_.sequence, query) : Interval{0, 0};
      const auto own = [&](int key) { return uint16_t(min(max(key - state_.work.first, 0), B::rows)); };
      state_.attended[group_][column] = {own(keys.low), own(keys.high)};
    }
    bar_sync(warpgroup - 1 + uint32_t(mov_tid_x()) / 128, 128);
  }

  /// A lane's pairs that attend. All of them.
  struct AllPairs {
    static constexpr bool masked = false;
    __device__ AllPairs(const StepScores &, StreamCoord) {}
    __device__ bool holds(int, int) const { return true; }
  };

  /// In a masked step: columns of each row, from a first one on.
  struct MaskedPairs {
    static constexpr bool masked = true;
    int first[2];
    uint32_t count[2];

    __device__ MaskedPairs(const StepScores &step, StreamCoord tile) {
      const int column = tile.tile * B::columns + Scores::first_column(lane());
      unroll<2>([&](int r) {
        const Interval queries = step.state_.queries[B::row_of(128 * (step.group_ + 1) + thread(), r)];
        first[r] = queries.low - column, count[r] = uint32_t(queries.high - queries.low);
      });
    }
    __device__ bool holds(int j, int e) const { return uint32_t(8 * j + e % 2 - first[e / 2]) < count[e / 2]; }
  };

  /// In a careful step: a bit for each column of a row.
  struct Attending {
    static constexpr bool masked = true;
    uint32_t row[2];

    __device__ bool holds(int j, int e) const { return row[e / 2] >> (2 * j + e % 2) & 1; }
  };
  static_assert(B::columns <= 128);

  __device__ Attending attending() const {
    Attending found = {};
    const int key = B::row_of(128 * (group_ + 1) + thread(), 0);
#pragma unroll 1
    for (int j = 0; j < Scores::column_blocks; j++) {
      unroll<2>([&](int e) {
        const KeyRange keys = state_.attended[group_][8 * j + Scores::first_column(lane()) + e];
        unroll<2>([&](int r) { found.row[r] |= uint32_t(keys.holds(key + 8 * r)) << (2 * j + e); });
      });
    }
    return found;
  }

  /// ALiBi of a lane's pairs.
  template <ScoreMod Mod>
  __device__ __forceinline__ Alibi<Mod> alibi_of(StreamCoord tile) const {
    Alibi<Mod> alibi(p_, state_.sequence, state_.work.kv_head * state_.group + tile.head);
    const int key = state_.work.first + B::row_of(128 * (group_ + 1) + thread(), 0);
    const int query = tile.tile * B::columns + Scores::first_column(lane());
    alibi.distance = float(query + state_.sequence.offset - key);
    return alibi;
  }

  /// By how much more number e of block j is away than a lane's first one.
  __device__ static constexpr int distance_of(int j, int e) { return 8 * j + e % 2 - e / 2 * 8; }

  /// P^T = 2^(c S^T - lse) in place of S^T. first: statistics 0.
  template <ScoreMod Mod, class P>
  __device__ __forceinline__ void weigh(Scores &x, const Stats &first, const P &pairs, const Alibi<Mod> &alibi) const {
    constexpr float half = B::halves ? 1 : 0;
    const float scale_2 = p_.scale * log2_e;
    for_each_block(first, [&](int j, float4 of) {
      const float even = of.x - half, odd = of.z - half;
      unroll<4>([&](int e) {
        float &number = x.block[0][j].x[e];
        const float weight = ex2_approx_ftz(alibi.add(fmaf(number, scale_2, e % 2 ? odd : even), distance_of(j, e)));
        number = pairs.holds(j, e) ? weight : no_weight;
      });
    });
  }

  /// dS^T = P^T (dP^T - delta) in place of dP^T.
  template <bool Masked>
  __device__ __forceinline__ void multiply_weights(Scores &y, const Scores &weights, const Stats &first) const {
    for_each_block(first, [&](int j, float4 of) {
      unroll<4>([&](int e) {
        const float weight = weights.block[0][j].x[e];
        float &number = y.block[0][j].x[e];
        const float d = weight * (number + (e % 2 ? of.w : of.y));
        number = Masked && !has_weight(weight) ? 0 : d;
      });
    });
  }

  /// Under a softcap, the first part of weights in place of S^T. Carefully: NaN of a product that is not finite, as it
  /// makes gradients NaN by its elements of Q or K, which are zeroed.
  template <bool Carefully>
  __device__ __forceinline__ void begin_softcap(Scores &x) const {
    const Softcap softcap(state_.softcap);
    x.for_each([&](float &number, int, int) {
      if (Carefully) number = fmaf(number, 0.f, number);
      number = softcap.part_of(number);
    });
  }

  /// Then P^T and dS^T, rounded, of these and of dP^T. odd: weights whose dS is not finite become NaN.
  template <class P>
  __device__ __forceinline__ void end_softcap(Weights<B> &p, Weights<B> &ds, const Scores &x, const Scores &y,
                                              const P &pairs, const Alibi<ScoreMod::softcap> &alibi, bool odd) const {
    constexpr float half = B::halves ? 1 : 0;
    const Softcap softcap(state_.softcap);
    const uint32_t repaired = odd ? ~0u : 0;
    for_each_block(stats(0), [&](int j, float4 of) {
      float weight[4], d[4];
      unroll<4>([&](int e) {
        const float t = x.block[0][j].x[e], score = softcap.score(t, (e % 2 ? of.z : of.x) - half);
        const float w = ex2_approx_ftz(alibi.add(score, distance_of(j, e)));
        const float product = w * Softcap::derivative(t) * (y.block[0][j].x[e] + (e % 2 ? of.w : of.y));
        weight[e] = pairs.holds(j, e) ? w : no_weight;
        d[e] = pairs.holds(j, e) ? product : 0;
      });
      unroll<2>([&](int r) {
        const int word = j % 2 * 2 + r;
        const float even = d[2 * r], odd = d[2 * r + 1];
        p.columns[j / 2].block[0].word[word] = pack<typename B::Element>(weight[2 * r], weight[2 * r + 1]) |
                                               (pack<typename B::Element>(even - even, odd - odd) & repaired);
        ds.columns[j / 2].block[0].word[word] = pack<typename B::Element>(even, odd);
      });
    });
  }

  /// Whether a product is NaN or infinite.
  __device__ static bool any_nonfinite(const Scores &x) {
    float zero = 0;
    x.for_each([&](float number, int, int) { zero = fmaf(number, 0.f, zero); });
    return zero != 0;
  }

  const BackwardParams &p_;
  State<B> &state_;
  int group_;
  uint32_t n_ = no_dq;  // of the step, and no_dq: registers are few
};

}  // namespace fa::kernels::backward_wgmma

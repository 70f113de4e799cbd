// Blocks of scores that a boolean mask or a bias of -inf hides as a whole. Their products are skipped, before their
// keys and values are fetched: weights of hidden pairs are exactly 0, so that no bit of a result depends on it. Each of
// the two tensors is looked at alone: a block that only both together hide is computed.
#pragma once

#include "collective/nonfinite.cuh"
#include "common/lanes.cuh"

namespace fa::kernels {

/// True in calls that may have such blocks.
__device__ inline bool has_block_mask(const Params &p) {
  return p.mask.data || p.bias.data;
}

/// Elements of a mask or a bias, and the bits of two, or four, neighbours that hide their pairs.
struct HidingTensor {
  const View &view;
  uint32_t hidden;
  int32_t bytes;  // of an element

  __device__ static HidingTensor mask_of(const Params &p) { return {p.mask, 0, 1}; }
  __device__ static HidingTensor bias_of(const Params &p) {
    uint32_t hidden;
    with_dtype(ComputeTypes(), p.bias_dtype, [&](auto type) { hidden = negative_infinities<type()>; });
    return {p.bias, hidden, element_bytes(ComputeTypes(), p.bias_dtype)};
  }

  __device__ bool shows(const char *element) const {
    if (bytes == 1) return *reinterpret_cast<const uint8_t *>(element) != 0;
    if (bytes == 2) return *reinterpret_cast<const uint16_t *>(element) != uint16_t(hidden);
    return *reinterpret_cast<const uint32_t *>(element) != hidden;
  }
  __device__ bool any_shows(const uint4 &x) const {
    return x.x != hidden || x.y != hidden || x.z != hidden || x.w != hidden;
  }

  /// Whether `Keys` neighbours can be read 16 bytes at a time wherever their row begins.
  template <int Keys>
  __device__ bool has_chunks() const {
    const int64_t all =
        reinterpret_cast<int64_t>(view.data) | view.stride[0] | view.stride[1] | view.stride[2] | Keys * bytes;
    return view.stride[3] == bytes && all % 16 == 0;
  }
};

/// Whether a tensor shows a pair of a block: of rows 0 .. rows - 1, which row_at(r) names, by keys `first` .. first +
/// Keys - 1, those outside the sequence left out. By a whole warp; most blocks show one at once.
template <int Keys, class F>
__device__ inline bool shows_any(const HidingTensor &tensor, const Sequence &s, F row_at, int32_t rows, int32_t first) {
  constexpr int at_once = 4;
  const View &view = tensor.view;
  if (view.stride[1] == 0 && view.stride[2] == 0) rows = 1;
  const bool chunks =
      tensor.has_chunks<Keys>() && first >= 0 && first * tensor.bytes % 16 == 0 && first + Keys <= s.keys;
  const int32_t elements = chunks ? 16 / tensor.bytes : 1;  // that a lane reads at once
  const int32_t last = rows * Keys;
#pragma unroll 1
  for (int32_t at = threadIdx.x % 32 * elements; __any_sync(~0u, at < last); at += at_once * 32 * elements) {
    bool shows = false;
#pragma unroll
    for (int i = 0; i < at_once; i++) {
      const int32_t n = at + i * 32 * elements, key = first + n % Keys;
      if (n >= last || key < 0 || key >= s.keys) continue;
      const char *const from = score_element(view, s, row_at(n / Keys), key);
      shows |= chunks ? tensor.any_shows(*reinterpret_cast<const uint4 *>(from)) : tensor.shows(from);
    }
    if (__any_sync(~0u, shows)) return true;
  }
  return false;
}

/// Whether mask and bias let a query attend a key.
__device__ inline bool shows_pair(const Params &p, const Sequence &s, Row row, int32_t key) {
  if (p.mask.data && !HidingTensor::mask_of(p).shows(score_element(p.mask, s, row, key))) return false;
  return !p.bias.data || HidingTensor::bias_of(p).shows(score_element(p.bias, s, row, key));
}

/// Whether mask or bias hides a block, as above.
template <int Keys, class F>
__device__ inline bool hides_block(const Params &p, const Sequence &s, F row_at, int32_t rows, int32_t first) {
#pragma unroll 1  // compiled once
  for (int i = 0; i < 2; i++) {
    const HidingTensor tensor = i == 0 ? HidingTensor::mask_of(p) : HidingTensor::bias_of(p);
    if (tensor.view.data && !shows_any<Keys>(tensor, s, row_at, rows, first)) return true;
  }
  return false;
}

/// The blocks of a range of them that are not hidden, a bit each, where threads of a block of threads look them up.
template <int Words>
struct ShownBlocks {
  static constexpr int32_t blocks = 32 * Words;
  int32_t first;
  uint32_t word[Words];

  __device__ void clear() { first = -blocks; }
  __device__ bool covers(int32_t block) const { return uint32_t(block - first) < uint32_t(blocks); }

  /// Finds those of `of` that lie in the range of `block`: a warp has 32 at a time. A pair of each, which shows(block)
  /// looks at, is enough for most; hides(block) looks at the others, by a whole warp. Returns whether one is hidden. By
  /// all threads.
  template <class Shows, class Hides>
  __device__ bool find(int32_t block, Interval of, Shows shows, Hides hides) {
    const int32_t begin = block / blocks * blocks, lane = threadIdx.x % 32;
    __syncthreads();  // all have read the range before
    if (threadIdx.x == 0) first = begin;
    bool any_hidden = false;
#pragma unroll 1
    for (int32_t n = threadIdx.x / 32; n < Words; n += blockDim.x / 32) {
      const int32_t own = begin + 32 * n + lane;
      const bool exists = of.holds(own);
      uint32_t shown = __ballot_sync(~0u, exists && shows(own));
#pragma unroll 1
      for (uint32_t left = __ballot_sync(~0u, exists) & ~shown; left != 0; left &= left - 1) {
        const int32_t bit = __ffs(left) - 1;
        if (hides(begin + 32 * n + bit)) {
          any_hidden = true;
        } else {
          shown |= 1u << bit;
        }
      }
      if (lane == 0) word[n] = shown;
    }
    return __syncthreads_or(any_hidden);
  }

  /// The last one up to `block`, which the range covers; first - 1 where the range has none.
  __device__ int32_t last_shown(int32_t block) const {
    for (int32_t place = block - first; place >= 0; place = place / 32 * 32 - 1) {
      const uint32_t found = word[place / 32] & ~0u >> (31 - place % 32);
      if (found != 0) return first + place / 32 * 32 + 31 - __clz(found);
    }
    return first - 1;
  }
};

}  // namespace fa::kernels

// Random numbers that are the same on every platform: a hash of (seed, stream, index), so that an element's value
// depends on which element it is and never on the order or the layout in which a tensor is filled.
#pragma once

#include <cstdint>

namespace reference {

/// The finaliser of splitmix64.
inline uint64_t hash(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline uint64_t hash(uint64_t seed, uint64_t stream, uint64_t index) {
  return hash(hash(hash(seed) ^ stream) ^ index);
}

/// Nearly normal, mean 0, variance 1, within +-3.47: the sum of four uniform numbers.
inline double normal(uint64_t bits) {
  using Pair = double __attribute__((vector_size(16)));  // whose divisions are one
  const auto part = [&](int i) { return double(int32_t((bits >> (16 * i)) & 0xffff)); };
  const Pair low = Pair{part(0), part(1)} / 65535.0, high = Pair{part(2), part(3)} / 65535.0;
  return (-2.0 + low[0] + low[1] + high[0] + high[1]) * 1.7320508075688772;
}

/// Draws numbers one after another.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(hash(seed)) {}

  uint64_t next() { return hash(state_++); }

  /// Uniform in [low, high].
  int64_t between(int64_t low, int64_t high) { return low + int64_t(next() % uint64_t(high - low + 1)); }

  bool chance(int percent) { return between(0, 99) < percent; }

  template <class T, class... More>
  T one_of(T first, More... more) {
    const T all[] = {first, T(more)...};
    return all[between(0, int64_t(sizeof...(more)))];
  }

 private:
  uint64_t state_;
};

}  // namespace reference

// Shared by the drivers of FlashAttention's kernels: a problem from the command line, inputs, attention and its
// gradients in double precision on the host, comparison.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// Every tensor is [batch, tokens, heads, dim], as FlashAttention's callers have them.
struct Problem {
  int batch = 1, heads = 2, queries = 200, keys = 200, dim = HEADDIM;
  bool causal = CAUSAL;
  size_t q_size() const { return size_t(batch) * queries * heads * dim; }
  size_t k_size() const { return size_t(batch) * keys * heads * dim; }
  double scale() const { return 1 / std::sqrt(double(dim)); }
  /// Keys that a row sees: with a causal mask, the last row sees all of them.
  int seen(int row) const { return causal ? std::max(0, std::min(keys, row + 1 + keys - queries)) : keys; }
};

/// PROGRAM [QUERIES [KEYS [HEADS [BATCH]]]]
inline Problem problem_of(int argc, char **argv) {
  Problem p;
  if (argc > 1) p.queries = p.keys = std::atoi(argv[1]);
  if (argc > 2) p.keys = std::atoi(argv[2]);
  if (argc > 3) p.heads = std::atoi(argv[3]);
  if (argc > 4) p.batch = std::atoi(argv[4]);
  if (p.queries < 1 || p.keys < 1 || p.heads < 1 || p.batch < 1) {
    std::fprintf(stderr, "usage: %s [QUERIES [KEYS [HEADS [BATCH]]]], each at least 1\n", argv[0]);
    std::exit(2);
  }
  return p;
}

/// Values between -1 and 1 that T can hold, the same in every run.
template <typename T>
std::vector<T> values(size_t n, uint32_t seed) {
  std::vector<T> result(n);
  uint32_t state = seed * 2654435761u + 1;
  for (T &x : result) {
    state = state * 1664525u + 1013904223u;
    x = T(float(state >> 8) / float(1 << 23) - 1);
  }
  return result;
}

template <typename T>
struct Device {
  T *at = nullptr;
  size_t n = 0;
  explicit Device(size_t count) : n(count) {
    C10_CUDA_CHECK(cudaMalloc(&at, n * sizeof(T)));
    C10_CUDA_CHECK(cudaMemset(at, 0xff, n * sizeof(T)));  // NaN, wherever a kernel leaves something out
  }
  explicit Device(const std::vector<T> &host) : Device(host.size()) {
    C10_CUDA_CHECK(cudaMemcpy(at, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  }
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;
  ~Device() { cudaFree(at); }
  std::vector<T> host() const {
    std::vector<T> result(n);
    C10_CUDA_CHECK(cudaMemcpy(result.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }
};

struct Expected {
  std::vector<double> o, dq, dk, dv;
  std::vector<float> lse;  // [batch, heads, queries]
};

/// Attention, and its gradients where there is a dO.
template <typename T>
Expected reference(const Problem &p, const std::vector<T> &q, const std::vector<T> &k, const std::vector<T> &v,
                   const std::vector<T> &go = {}) {
  Expected e;
  e.o.resize(p.q_size()), e.dq.resize(p.q_size()), e.dk.resize(p.k_size()), e.dv.resize(p.k_size());
  e.lse.resize(size_t(p.batch) * p.heads * p.queries);
  std::vector<double> s(p.keys);
  for (int b = 0; b < p.batch; b++)
    for (int h = 0; h < p.heads; h++)
      for (int i = 0; i < p.queries; i++) {
        auto at_k = [&](int j) { return ((size_t(b) * p.keys + j) * p.heads + h) * p.dim; };
        const size_t row = ((size_t(b) * p.queries + i) * p.heads + h) * p.dim;
        const int n = p.seen(i);
        double top = -INFINITY, sum = 0, delta = 0;
        for (int j = 0; j < n; j++) {
          s[j] = 0;
          for (int c = 0; c < p.dim; c++) s[j] += double(float(q[row + c])) * double(float(k[at_k(j) + c]));
          top = std::max(top, s[j] *= p.scale());
        }
        for (int j = 0; j < n; j++) sum += s[j] = std::exp(s[j] - top);
        e.lse[(size_t(b) * p.heads + h) * p.queries + i] = n ? float(std::log(sum) + top) : INFINITY;
        for (int j = 0; j < n; j++) {
          s[j] /= sum;
          for (int c = 0; c < p.dim; c++) e.o[row + c] += s[j] * double(float(v[at_k(j) + c]));
        }
        if (go.empty()) continue;
        for (int c = 0; c < p.dim; c++) delta += e.o[row + c] * double(float(go[row + c]));
        for (int j = 0; j < n; j++) {
          double dp = 0;
          for (int c = 0; c < p.dim; c++) dp += double(float(go[row + c])) * double(float(v[at_k(j) + c]));
          const double ds = s[j] * (dp - delta) * p.scale();
          for (int c = 0; c < p.dim; c++) {
            e.dv[at_k(j) + c] += s[j] * double(float(go[row + c]));
            e.dq[row + c] += ds * double(float(k[at_k(j) + c]));
            e.dk[at_k(j) + c] += ds * double(float(q[row + c]));
          }
        }
      }
  return e;
}

/// Prints how far they are apart; true where that is within the tolerance.
template <typename T, typename E>
bool close(const char *name, const std::vector<T> &got, const std::vector<E> &wanted, double tolerance) {
  double most = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double x = double(float(got[i])), y = double(wanted[i]);
    const double apart = x == y ? 0 : std::abs(x - y) / (1 + std::abs(y));
    most = std::isnan(apart) ? INFINITY : std::max(most, apart);
  }
  std::printf("%s: at most %.2e from the reference (%.0e allowed)\n", name, most, tolerance);
  return most <= tolerance;
}

// long.*: a causal head over 131072 keys, right in sampled rows, in less than 64 MB beyond its tensors.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "reference/tensor.h"

namespace test {
using namespace reference;
namespace {

constexpr int64_t keys = 131072, dim = 64, max_memory = 64 << 20;

/// A line of /proc/self/status in bytes: "VmRSS", the memory in use, or "VmHWM", the most since it was reset.
int64_t memory(const std::string &line) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == line + ":" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

void reset_max_memory() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

struct Head {
  explicit Head(int64_t queries) : rows(queries) {
    uint64_t stream = 0;
    for (const Tensor *tensor : {&q, &k, &v}) tensor->randomise(1, ++stream, tensor == &q ? 2 : 1);
    out.clear();
    lse.clear();
  }

  void run() const {
    fa_desc desc;
    fa_desc_init(&desc, sizeof desc);
    desc.device = FA_DEVICE_CPU;
    desc.dtype_q = FA_F16, desc.head_dim = dim, desc.mask = FA_MASK_CAUSAL;
    fa_forward_args args;
    fa_forward_args_init(&args, sizeof args);
    args.q = q.view(), args.k = k.view(), args.v = v.view(), args.out = out.view(), args.lse = lse.view();
    fa_op *op = nullptr;
    ASSERT_EQ(fa_create(&desc, &op), FA_OK) << fa_last_error();
    const std::string kernel = fa_op_kernel_name(op);
    reset_max_memory();
    const int64_t before = memory("VmRSS");
    const auto start = std::chrono::steady_clock::now();
    const fa_status status = fa_forward(op, &args);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const int64_t more = memory("VmHWM") - before;
    fa_destroy(op);
    ASSERT_EQ(status, FA_OK) << fa_last_error();
    std::printf("%lld queries, %lld keys on %s: %.1f s, %.2f MB beyond the tensors\n", (long long)rows, (long long)keys,
                kernel.c_str(), seconds.count(), double(more) / (1 << 20));
    ASSERT_GT(before, 0) << "/proc/self/status is empty";
    EXPECT_LT(more, max_memory);
  }

  /// Compares a row with the same in double precision.
  void check(int64_t row) const {
    const int64_t seen = keys - rows + row + 1;
    std::vector<double> scores, exact(dim);
    double highest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double score = 0;
      for (int64_t d = 0; d < dim; ++d) score += q.get(0, row, 0, d) * k.get(0, j, 0, d);
      scores.push_back(score / std::sqrt(double(dim)));
      highest = std::fmax(highest, scores.back());
    }
    for (int64_t j = 0; j < seen; ++j) {
      const double weight = std::exp(scores[size_t(j)] - highest);
      sum += weight;
      for (int64_t d = 0; d < dim; ++d) exact[size_t(d)] += weight * v.get(0, j, 0, d);
    }
    for (int64_t d = 0; d < dim; ++d) {
      const double expected = exact[size_t(d)] / sum;
      ASSERT_NEAR(out.get(0, row, 0, d), expected, std::abs(expected) * 0x1p-10 + 2e-5) << "row " << row;
    }
    ASSERT_NEAR(lse.get(0, 0, row, 0), highest + std::log(sum), 2e-5) << "row " << row;
  }

  int64_t rows;
  Tensor q{{1, rows, 1, dim}, FA_F16, Layout::bshd, Guard::end};
  Tensor k{{1, keys, 1, dim}, FA_F16, Layout::bshd, Guard::end}, v{{1, keys, 1, dim}, FA_F16, Layout::bshd, Guard::end};
  Tensor out{{1, rows, 1, dim}, FA_F16, Layout::bshd, Guard::end};
  Tensor lse{{1, 1, rows, 1}, FA_F32, Layout::bshd, Guard::end};
};

TEST(Long, LastQueries) {
  const Head head(1024);
  head.run();
  for (const int64_t row : {0, 1, 511, 1023}) head.check(row);
}

TEST(Long, AllQueries) {
  const Head head(keys);
  head.run();
  for (const int64_t row : {0, 1, 127, 128, 1000, 65537, 131071}) head.check(row);
}

}  // namespace
}  // namespace test

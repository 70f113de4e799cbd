// The oracle itself, against a second formulation written another way, against values worked out by hand, and against
// the reference that comes with the MiniLM tensors.
#include "reference/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "reference/instance.h"
#include "reference/random.h"
#include "support/npy.h"

namespace {

using namespace reference;
using namespace test;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Attention for plain batches in the "online" way: one pass over the keys, no score stored, the maximum adjusted on
/// the way. allowed(i, j) represents every mask.
template <class Allowed>
std::vector<double> online_row(const Instance &s, int64_t b, int64_t i, int64_t h, Allowed allowed, double *lse) {
  const int64_t kv = h * s.c.hkv / s.c.hq;
  std::vector<double> sum(size_t(s.c.dim_v()), 0.0);
  double top = -infinity, weight = 0;
  for (int64_t j = 0; j < s.c.sk; ++j) {
    if (!allowed(i, j)) continue;
    double x = 0;
    for (int64_t d = 0; d < s.c.d; ++d) x += s.q.get(b, i, h, d) * s.k.get(b, j, kv, d);
    x /= std::sqrt(double(s.c.d));
    const double next = std::fmax(top, x), shrink = std::exp(top - next), p = std::exp(x - next);
    for (int64_t d = 0; d < s.c.dim_v(); ++d) sum[size_t(d)] = sum[size_t(d)] * shrink + p * s.v.get(b, j, kv, d);
    weight = weight * shrink + p;
    top = next;
  }
  for (double &x : sum) x = weight > 0 ? x / weight : 0;
  *lse = weight > 0 ? top + std::log(weight) : -infinity;
  return sum;
}

template <class Allowed>
void expect_online(const Case &c, Allowed allowed) {
  const Instance s(c);
  const reference::Result r = reference::attention(s.desc, s.args);
  for (int64_t b = 0; b < c.b; ++b) {
    for (int64_t i = 0; i < c.sq; ++i) {
      for (int64_t h = 0; h < c.hq; ++h) {
        double lse;
        const std::vector<double> row = online_row(s, b, i, h, allowed, &lse);
        const double got = r.lse[size_t(r.head(b, i, h))];
        ASSERT_TRUE(got == lse || std::abs(got - lse) < 1e-12) << got << " " << lse << " " << to_text(c);
        for (int64_t d = 0; d < c.dim_v(); ++d)
          ASSERT_NEAR(r.out[size_t(r.element(b, i, h, d))], row[size_t(d)], 1e-12) << to_text(c);
      }
    }
  }
}

Case small() {
  Case c;
  c.b = 2, c.sq = 7, c.sk = 11, c.hq = 4, c.hkv = 2, c.d = 6, c.dv = 5;
  return c;
}

TEST(Oracle, MatchesTheOnlineFormulation) {
  Case c = small();
  expect_online(c, [](int64_t, int64_t) { return true; });
  c.mask = FA_MASK_CAUSAL;
  expect_online(c, [](int64_t i, int64_t j) { return j < i + 5; });  // query 6 sees key 10, query 0 keys 0 to 4
  c.mask = FA_MASK_CAUSAL_TOP_LEFT;
  expect_online(c, [](int64_t i, int64_t j) { return j <= i; });
  c.sq = 11, c.sk = 7, c.mask = FA_MASK_CAUSAL;  // the first four queries see nothing
  expect_online(c, [](int64_t i, int64_t j) { return i >= 4 && j <= i - 4; });
  c = small();
  c.window_left = 2, c.window_right = 1;
  expect_online(c, [](int64_t i, int64_t j) { return i + 2 <= j && j <= i + 5; });
  c = small();
  c.chunk = 3;
  expect_online(c, [](int64_t i, int64_t j) { return j / 3 == (i + 4) / 3; });
}

/// q = k = 0, so that only addends decide; v counts the keys.
struct Counting : Instance {
  explicit Counting(const Case &counted) : Instance(counted) {
    q.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) { q.set(i, j, m, n, 0); });
    k.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) { k.set(i, j, m, n, 0); });
    v.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) { v.set(i, j, m, n, double(j)); });
  }
  reference::Result result() const { return reference::attention(desc, args); }
};

TEST(Oracle, AddendsByHand) {
  Case c;
  c.sq = 2, c.sk = 3, c.d = 1, c.sinks = "h", c.alibi = "h", c.bias = "f32:qk", c.softcap = 2;
  const Counting s(c);
  s.sinks.set(0, 0, 0, 0, std::log(2.0));
  s.alibi_slopes.set(0, 0, 0, 0, std::log(2.0));
  s.bias.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) { s.bias.set(i, j, m, n, 0); });
  s.bias.set(0, 0, 1, 2, -infinity);
  const reference::Result r = s.result();
  // Query 0 is at position 1: weights 1/2, 1, 1/2 and the sink's 2. Query 1 at 2: 1/4, 1/2, none.
  EXPECT_NEAR(r.out[0], (0.5 * 0 + 1 * 1 + 0.5 * 2) / 4, 1e-7);
  EXPECT_NEAR(r.lse[0], std::log(4.0), 1e-7);
  EXPECT_NEAR(r.out[1], (0.25 * 0 + 0.5 * 1) / 2.75, 1e-7);
  EXPECT_NEAR(r.lse[1], std::log(2.75), 1e-7);
}

TEST(Oracle, SoftcapBeforeAndAfterTheBias) {
  Case c;
  c.sq = c.sk = c.d = 1, c.softcap = 2, c.bias = "f32:", c.scale = 1;
  const Instance s(c);
  s.q.set(0, 0, 0, 0, 3);
  s.k.set(0, 0, 0, 0, 1);
  s.bias.set(0, 0, 0, 0, 5);
  EXPECT_NEAR(reference::attention(s.desc, s.args).lse[0], 2 * std::tanh(1.5) + 5, 1e-12);
  fa_desc first = s.desc;
  first.flags = FA_FLAG_BIAS_BEFORE_SOFTCAP;
  EXPECT_NEAR(reference::attention(first, s.args).lse[0], 2 * std::tanh(4), 1e-12);
}

TEST(Oracle, SequencesByHand) {
  // Keys that the call does not use hold NaN, so that a mean over the wrong rows cannot be finite.
  Case c;
  c.sq = 1, c.sk = 8, c.d = 1, c.used_k = c.leftpad = true;
  const Instance s(c);
  s.seqused_k[0] = 6, s.leftpad_k[0] = 2;
  s.k.each(
      [&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) { s.k.set(i, j, m, n, j >= 2 && j < 6 ? 0 : NAN); });
  s.v.each([&](int64_t i, int64_t j, int64_t m, int64_t n, int64_t) {
    s.v.set(i, j, m, n, j >= 2 && j < 6 ? double(j) : NAN);
  });
  const reference::Result r = reference::attention(s.desc, s.args);
  EXPECT_NEAR(r.out[0], 3.5, 1e-12);
  EXPECT_NEAR(r.lse[0], std::log(4.0), 1e-12);
}

TEST(Oracle, PagesAndPackedRowsAreTheSameAttention) {
  Case plain;
  plain.b = 1, plain.sq = 5, plain.sk = 12, plain.d = 3, plain.mask = FA_MASK_CAUSAL;
  Case paged = plain;
  paged.page = 4;
  const Instance a(plain), b(paged);
  for (int64_t j = 0; j < 12; ++j) {
    for (int64_t d = 0; d < 3; ++d) {
      b.k.set(int64_t(b.block_table.get(0, j / 4, 0, 0)), j % 4, 0, d, a.k.get(0, j, 0, d));
      b.v.set(int64_t(b.block_table.get(0, j / 4, 0, 0)), j % 4, 0, d, a.v.get(0, j, 0, d));
    }
  }
  EXPECT_EQ(reference::attention(a.desc, a.args).out, reference::attention(b.desc, b.args).out);

  // Rows 2..5 and 3..8 of longer tensors, as the second sequence of a packed call.
  fa_forward_args packed = a.args;
  const int32_t cu_q[] = {0, 2, 5}, cu_k[] = {0, 3, 12};
  packed.cu_seqlens_q = cu_q, packed.cu_seqlens_k = cu_k, packed.num_seqs = 2;
  const reference::Result whole = reference::attention(a.desc, packed);
  fa_forward_args second = a.args;
  second.q.data = a.q.at(0, 2, 0, 0), second.k.data = a.k.at(0, 3, 0, 0), second.v.data = a.v.at(0, 3, 0, 0);
  second.q.shape[1] = second.out.shape[1] = 3;
  second.k.shape[1] = second.v.shape[1] = 9;
  const reference::Result part = reference::attention(a.desc, second);
  EXPECT_EQ(std::vector<double>(whole.out.end() - 9, whole.out.end()), part.out);
}

TEST(Oracle, NothingMaskedIsRead) {
  Case c = small();
  c.mask = FA_MASK_CAUSAL, c.sk = c.sq;
  const Instance s(c), poisoned(c);
  for (int64_t d = 0; d < c.d; ++d) poisoned.k.set(0, 6, 0, d, NAN);
  for (int64_t d = 0; d < c.dv; ++d) poisoned.v.set(0, 6, 0, d, infinity);
  const reference::Result a = reference::attention(s.desc, s.args),
                          b = reference::attention(poisoned.desc, poisoned.args);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(a.out[size_t(a.element(0, i, 0, 0))], b.out[size_t(b.element(0, i, 0, 0))]);
  EXPECT_TRUE(std::isnan(b.out[size_t(b.element(0, 6, 0, 0))]));
  EXPECT_TRUE(std::isnan(b.lse[size_t(b.head(0, 6, 0))]));
}

TEST(Oracle, NaiveIsCloseAndRounded) {
  Case c = small();
  c.q = FA_BF16;
  const Instance s(c);
  const reference::Result exact = reference::attention(s.desc, s.args), naive = reference::naive(s.desc, s.args);
  double error = 0;
  for (size_t n = 0; n < exact.out.size(); ++n) error = std::fmax(error, std::abs(exact.out[n] - naive.out[n]));
  EXPECT_LT(error, 0.03);
  EXPECT_GT(error, 1e-4);
}

TEST(Oracle, MiniLM) {
  const std::string folder = TEST_DATA;
  const std::vector<char> cu = npy_elements(folder + "/cu_seqlens.npy");
  ASSERT_EQ(cu.size(), 4 * sizeof(int32_t));
  for (const char *layer : {"/layer0_", "/layer5_"}) {
    std::vector<char> q = npy_elements(folder + layer + "q.npy"), k = npy_elements(folder + layer + "k.npy"),
                      v = npy_elements(folder + layer + "v.npy");
    const std::vector<char> reference = npy_elements(folder + layer + "out.npy");
    fa_desc desc;
    fa_desc_init(&desc, sizeof desc);
    desc.dtype_q = FA_F16, desc.head_dim = 32;
    fa_forward_args args;
    fa_forward_args_init(&args, sizeof args);
    for (auto [tensor, elements] : {std::pair{&args.q, &q}, {&args.k, &k}, {&args.v, &v}}) {
      ASSERT_EQ(elements->size(), size_t(335 * 12 * 32 * 2));
      fa_tensor_init(tensor, elements->data(), FA_F16, 1, 335, 12, 32);
    }
    args.out = args.q;
    args.cu_seqlens_q = args.cu_seqlens_k = reinterpret_cast<const int32_t *>(cu.data());
    args.num_seqs = 3;
    const reference::Result r = reference::attention(desc, args);
    ASSERT_EQ(r.out.size() * 4, reference.size());
    double worst = 0;
    for (size_t n = 0; n < r.out.size(); ++n) {
      float expected;
      std::memcpy(&expected, &reference[n * 4], 4);
      worst = std::fmax(worst, std::abs(r.out[n] - expected));
    }
    EXPECT_LT(worst, 3e-7) << layer;
  }
}

}  // namespace

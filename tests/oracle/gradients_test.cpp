// The oracle's gradients, against finite differences of the oracle's attention, and against values worked out by hand.
#include "reference/gradients.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/backward.h"
#include "reference/compare_gradients.h"
#include "reference/oracle.h"

namespace {

using namespace reference;

/// The function of the gradients: the sum of dout out and of dlse lse.
double loss(const BackwardInstance &s) {
  const reference::Result r = reference::attention(s.desc, s.args);
  double sum = 0;
  for (int64_t b = 0; b < r.batch; ++b) {
    for (int64_t i = 0; i < r.rows; ++i) {
      for (int64_t h = 0; h < r.heads && r.written[size_t(r.row(b, i))]; ++h) {
        const double lse = r.lse[size_t(r.head(b, i, h))];
        if (!std::isfinite(lse)) continue;
        for (int64_t d = 0; d < r.dim; ++d) sum += s.dout.get(b, i, h, d) * r.out[size_t(r.element(b, i, h, d))];
        if (s.dlse) sum += s.dlse.get(b, h, i, 0) * lse;
      }
    }
  }
  return sum;
}

/// The change of the loss with one element of an input, by a central difference.
double difference(const BackwardInstance &s, const Tensor &input, const std::array<int64_t, 4> &at) {
  const auto [i, j, k, l] = at;
  const double x = input.get(i, j, k, l);
  double losses[2], places[2];
  for (const int side : {0, 1}) {
    input.set(i, j, k, l, x + (side ? 0x1p-9 : -0x1p-9));
    places[side] = input.get(i, j, k, l);
    losses[side] = loss(s);
  }
  input.set(i, j, k, l, x);
  return (losses[1] - losses[0]) / (places[1] - places[0]);
}

void expect_differences(const BackwardInstance &s, const Tensor &input, const reference::Gradient &gradient) {
  ASSERT_TRUE(gradient);
  input.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
    if (!gradient.written[size_t(i * gradient.shape[1] + j)] || !std::isfinite(input.get(i, j, k, l))) return;
    const double got = gradient.value[size_t(gradient.at(i, j, k, l))], want = difference(s, input, {i, j, k, l});
    EXPECT_NEAR(got, want, 2e-5 * (1 + std::abs(want)))
        << i << " " << j << " " << k << " " << l << " of " << to_text(s.c);
  });
}

Case small() {
  Case c;
  c.backward = true;
  c.b = 2, c.sq = 3, c.sk = 5, c.hq = 4, c.hkv = 2, c.d = 3, c.dv = 2, c.dlse = true;
  return c;
}

void expect_gradients(const Case &c) {
  const BackwardInstance s(c);
  const reference::Gradients g = reference::gradients(s.desc, s.call);
  expect_differences(s, s.q, g.dq);
  expect_differences(s, s.k, g.dk);
  expect_differences(s, s.v, g.dv);
  if (!c.dbias.empty()) expect_differences(s, s.bias, g.dbias);
  if (!c.dsinks.empty()) expect_differences(s, s.sinks, g.dsinks);
}

TEST(OracleGradients, FiniteDifferences) {
  const auto with = [](auto change) {
    Case c = small();
    change(&c);
    expect_gradients(c);
  };
  with([](Case *) {});
  with([](Case *c) { c->mask = FA_MASK_CAUSAL; });
  with([](Case *c) { c->mask = FA_MASK_CAUSAL_TOP_LEFT, c->sq = 6; });
  with([](Case *c) { c->window_left = 1, c->window_right = 1, c->scale = -0.9; });
  with([](Case *c) { c->chunk = 2, c->delta = true; });
  with([](Case *c) { c->softcap = 1.2; });
  with([](Case *c) { c->bias = "f32:bhqk", c->dbias = "bhqk", c->softcap = 0.8; });
  with([](Case *c) { c->bias = "f32:hk", c->dbias = "hk", c->softcap = 0.8, c->flags = FA_FLAG_BIAS_BEFORE_SOFTCAP; });
  with([](Case *c) { c->bias = "f32:q", c->dbias = "q", c->alibi = "bh"; });
  with([](Case *c) { c->sinks = "h", c->dsinks = "h", c->boolmask = "bqk"; });
  with([](Case *c) { c->sinks = c->dsinks = "bh", c->used_q = c->used_k = c->leftpad = true; });
  with([](Case *c) { c->cu_q = c->cu_k = true, c->mask = FA_MASK_CAUSAL; });
  with([](Case *c) { c->b = 4, c->batch_idx = c->offset = true, c->mask = FA_MASK_CAUSAL; });
}

/// One query, two keys, everything 1 or 0 but the values.
TEST(OracleGradients, ByHand) {
  Case c;
  c.backward = true;
  c.sq = 1, c.sk = 2, c.d = c.dv = 1, c.scale = 2;
  BackwardInstance s(c);
  const double values[] = {1, 3};
  s.q.set(0, 0, 0, 0, 1);
  for (int64_t j = 0; j < 2; ++j) {
    s.k.set(0, j, 0, 0, double(j));
    s.v.set(0, j, 0, 0, values[j]);
  }
  s.dout.set(0, 0, 0, 0, 1);
  s.lse.set(0, 0, 0, 0, std::log(8.0));  // of more keys than these: the weights 1 and exp(2) of 8
  s.out.set(0, 0, 0, 0, 0.5);
  const reference::Gradients g = reference::gradients(s.desc, s.call);
  const double p[] = {1 / 8.0, std::exp(2.0) / 8}, dx[] = {p[0] * (1 - 0.5), p[1] * (3 - 0.5)};
  EXPECT_NEAR(g.dv.value[0], p[0], 1e-6);
  EXPECT_NEAR(g.dv.value[1], p[1], 1e-6);
  EXPECT_NEAR(g.dk.value[0], 2 * dx[0], 1e-6);
  EXPECT_NEAR(g.dk.value[1], 2 * dx[1], 1e-6);
  EXPECT_NEAR(g.dq.value[0], 2 * dx[1], 1e-6);
}

/// A row without keys left holds NaN all over, and so do keys that nothing attends.
TEST(OracleGradients, NothingMaskedIsRead) {
  Case c = small();
  c.sq = 6, c.sk = 4, c.mask = FA_MASK_CAUSAL;  // the first two queries see nothing
  const BackwardInstance s(c);
  ASSERT_TRUE(std::isnan(s.dout.get(0, 1, 0, 0)));
  for (int64_t d = 0; d < c.dv; ++d) s.v.set(0, 3, 0, d, NAN);
  const reference::Gradients g = reference::gradients(s.desc, s.call);
  for (int64_t d = 0; d < c.d; ++d) {
    EXPECT_EQ(g.dq.value[size_t(g.dq.at(0, 0, 0, d))], 0);
    EXPECT_TRUE(std::isfinite(g.dq.value[size_t(g.dq.at(0, 4, 0, d))]));
    EXPECT_TRUE(std::isnan(g.dq.value[size_t(g.dq.at(0, 5, 0, d))]));
    EXPECT_TRUE(std::isnan(g.dk.value[size_t(g.dk.at(0, 3, 0, d))]));
  }
}

TEST(OracleGradients, NaiveIsCloseAndRounded) {
  Case c = small();
  c.q = FA_BF16;
  const BackwardInstance s(c);
  const ExpectedGradients e(s);
  double error = 0;
  for (size_t n = 0; n < e.exact.dk.value.size(); ++n)
    error = std::fmax(error, std::abs(e.exact.dk.value[n] - e.naive.dk.value[n]));
  EXPECT_LT(error, 0.05);
  EXPECT_GT(error, 1e-4);
}

}  // namespace

// property.*: relations that hold between calls whatever the numbers are: inputs on which attention must not depend,
// and how it must change with others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/target.h"
#include "reference/gpu.h"
#include "reference/number.h"
#include "reference/run.h"

namespace test {
using namespace reference;
namespace {

class Property : public EngineTest {
 protected:
  void run(const Instance &instance) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  /// The cases that a relation is tried on: a few tiles, and few queries over several blocks of keys.
  std::vector<Case> cases() const {
    Case prefill;
    prefill.b = 2, prefill.sq = 41, prefill.sk = 150, prefill.hq = 4, prefill.hkv = 2, prefill.d = 32, prefill.dv = 40;
    Case decode = prefill;
    decode.sq = 2, decode.sk = 300;
    std::vector<Case> list = {typed(prefill, 1), typed(decode, 2)};
    if (is_mixed()) list.push_back(typed(prefill, 11)), list.push_back(typed(decode, 14));
    return list;
  }
};

/// Copies every element, which may be in another layout or type.
void copy(const Tensor &from, const Tensor &to) {
  from.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { to.set(i, j, h, d, from.get(i, j, h, d)); });
}

/// Expects out and lse of a and b, whose exact results are r, to agree within both calls' error bounds.
void expect_close(const Instance &a, const Instance &b, const reference::Result &r, const std::string &kernel,
                  double lse_shift = 0) {
  a.out.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
    ASSERT_NEAR(a.out.get(i, j, h, d), b.out.get(i, j, h, d), 3 * out_bound(a.c, r, r.head(i, j, h), d))
        << repeat_line(a.c, kernel);
  });
  a.lse.each([&](int64_t i, int64_t h, int64_t j, int64_t, int64_t) {
    ASSERT_NEAR(a.lse.get(i, h, j, 0) + lse_shift, b.lse.get(i, h, j, 0),
                3 * lse_bound(a.c, r, r.head(i, j, h)) + 1e-6 * std::abs(lse_shift))
        << repeat_line(a.c, kernel);
  });
}

void expect_close(const Instance &a, const Instance &b, const std::string &kernel) {
  expect_close(a, b, reference::attention(a.desc, a.args), kernel);
}

TEST_P(Property, KeysInAnyOrder) {
  for (const Case &c : cases()) {
    const Instance a(c), b(c);
    for (Tensor Instance::*tensor : {&Instance::k, &Instance::v}) {
      const Tensor *from = &(a.*tensor), *to = &(b.*tensor);
      from->each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
        to->set(i, (j * 7 + 3) % c.sk, h, d, from->get(i, j, h, d));  // 7 divides no sk here: a permutation
      });
    }
    run(a);
    run(b);
    expect_close(a, b, kernel);
  }
}

TEST_P(Property, ScalesWithV) {
  for (const Case &c : cases()) {
    const Instance a(c), b(c);
    a.v.each(
        [&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { b.v.set(i, j, h, d, -2 * a.v.get(i, j, h, d)); });
    run(a);
    run(b);
    a.out.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      const double x = a.out.get(i, j, h, d);
      if (std::abs(x) < 1e-3) return;  // a subnormal f16 loses a bit
      ASSERT_EQ(-2 * x, b.out.get(i, j, h, d)) << repeat_line(c, kernel);
    });
  }
}

TEST_P(Property, AddsInV) {
  for (Case c : cases()) {
    c.out = FA_F32;
    const Instance a(c), b(c), sum(c);
    a.v.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t n) {
      const double x = double(n % 13 - 6) / 4, y = double(n % 7 - 3) / 8;  // exact in every type, and so is their sum
      a.v.set(i, j, h, d, x);
      b.v.set(i, j, h, d, y);
      sum.v.set(i, j, h, d, x + y);
    });
    for (const Instance *instance : {&a, &b, &sum}) run(*instance);
    const reference::Result r = reference::attention(sum.desc, sum.args);
    sum.out.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      const double scale = std::abs(a.out.get(i, j, h, d)) + std::abs(b.out.get(i, j, h, d));
      ASSERT_NEAR(a.out.get(i, j, h, d) + b.out.get(i, j, h, d), sum.out.get(i, j, h, d),
                  3 * out_bound(c, r, r.head(i, j, h), d) + scale * 1e-6)
          << repeat_line(c, kernel);
    });
  }
}

TEST_P(Property, ShiftedScoresShiftLseAlone) {
  for (Case c : cases()) {
    c.bias = "f32:";
    const Instance a(c);
    a.bias.set(0, 0, 0, 0, 0);
    run(a);
    const reference::Result r = reference::attention(a.desc, a.args);
    for (const double shift : {-40.0, 3.0, 100.0}) {
      const Instance b(c);
      b.bias.set(0, 0, 0, 0, shift);
      run(b);
      expect_close(a, b, r, kernel, shift);
    }
  }
}

TEST_P(Property, LaterKeysDoNotReachCausalQueries) {
  for (Case c : cases()) {
    c.mask = FA_MASK_CAUSAL_TOP_LEFT;
    Case prefix = c;
    prefix.sk = c.sq;
    const Instance a(c), b(prefix);
    copy(a.q, b.q);
    for (Tensor Instance::*tensor : {&Instance::k, &Instance::v}) {
      const Tensor *from = &(a.*tensor), *to = &(b.*tensor);
      to->each(
          [&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { to->set(i, j, h, d, from->get(i, j, h, d)); });
    }
    run(a);
    run(b);
    expect_close(a, b, kernel);
  }
}

// [F108]
TEST_P(Property, SplitsAgree) {
  for (Case c : cases()) {
    const Instance whole(c);
    run(whole);
    const reference::Result r = reference::attention(whole.desc, whole.args);
    for (const int32_t splits : {1, 2, 3, 8, 1024}) {
      c.splits = splits;
      const Instance split(c);
      run(split);
      expect_close(whole, split, r, kernel);
    }
  }
}

TEST_P(Property, HalvesMergeByTheirLse) {
  for (Case c : cases()) {
    c.out = FA_F32;
    const Instance whole(c), first(c), second(c);
    fa_forward_args half[2] = {first.args, second.args};
    const int64_t cut = c.sk / 3;
    for (fa_tensor fa_forward_args::*tensor : {&fa_forward_args::k, &fa_forward_args::v}) {
      (half[0].*tensor).shape[1] = cut;
      (half[1].*tensor).shape[1] = c.sk - cut;
      char *&data = reinterpret_cast<char *&>((half[1].*tensor).data);
      data += cut * (half[1].*tensor).stride[1] * dtype_bytes(c.kv_type());
    }
    const Op op(whole.desc, kernel);
    for (const fa_forward_args &args : {whole.args, half[0], half[1]}) ASSERT_EQ(fa_forward(op.get(), &args), FA_OK);
    ASSERT_EQ(wait_for_gpu(), "");
    const reference::Result r = reference::attention(whole.desc, whole.args);
    whole.out.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      const double x = first.lse.get(i, h, j, 0), y = second.lse.get(i, h, j, 0);
      const double p = 1 / (1 + std::exp(y - x));
      ASSERT_NEAR(p * first.out.get(i, j, h, d) + (1 - p) * second.out.get(i, j, h, d), whole.out.get(i, j, h, d),
                  3 * out_bound(c, r, r.head(i, j, h), d))
          << repeat_line(c, kernel);
    });
  }
}

TEST_P(Property, SharedHeadsAreRepeatedHeads) {
  for (const Case &c : cases()) {
    Case repeated = c;
    repeated.hkv = c.hq;
    const Instance a(c), b(repeated);
    copy(a.q, b.q);
    for (Tensor Instance::*tensor : {&Instance::k, &Instance::v}) {
      const Tensor *from = &(a.*tensor), *to = &(b.*tensor);
      to->each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
        to->set(i, j, h, d, from->get(i, j, h * c.hkv / c.hq, d));
      });
    }
    run(a);
    run(b);
    expect_close(a, b, kernel);
  }
}

TEST_P(Property, ZeroKeysGiveTheMeanOfV) {
  for (const Case &c : cases()) {
    const Instance a(c);
    a.k.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { a.k.set(i, j, h, d, 0); });
    a.v.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) { a.v.set(i, j, h, d, j % 2 ? 1.5 : 0.5); });
    run(a);
    a.out.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      ASSERT_NEAR(a.out.get(i, j, h, d), 1, 1e-2) << repeat_line(c, kernel);
    });
    a.lse.each([&](int64_t i, int64_t h, int64_t j, int64_t, int64_t) {
      ASSERT_NEAR(a.lse.get(i, h, j, 0), std::log(double(c.sk)), 1e-3) << repeat_line(c, kernel);
    });
  }
}

TEST_ALL_TARGETS(Property, all_types);

}  // namespace
}  // namespace test

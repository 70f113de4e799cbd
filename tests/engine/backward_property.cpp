// backward_property.*: properties of gradients whatever the numbers are, leaks, and equal bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/number.h"
#include "reference/random.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class BackwardProperty : public EngineTest {
 protected:
  /// A case whose gradients are f32, whatever its inputs are.
  Case wide(int64_t sq, int64_t sk) const {
    Case c = typed(Case{});
    c.backward = true;
    c.b = 2, c.sq = sq, c.sk = sk, c.hq = 4, c.hkv = 2, c.d = 24;
    c.dq = c.dk = c.dv_type = c.dbias_type = FA_F32;
    return c;
  }

  void run(const BackwardInstance &instance, int fill = 0xff) {
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance, fill), FA_OK) << fa_last_error() << "\n" << repeat_line(instance.c, kernel);
  }

  /// Runs an instance unchanged and compares it with the reference.
  void expect_right(const BackwardInstance &instance, const char *what) {
    instance.clear_gradients();
    run(instance);
    EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "") << what << "\n" << repeat_line(instance.c, kernel);
  }
};

/// Gradients of twice the dout and dlse are twice the gradients, to the bit.
// [F162]
TEST_P(BackwardProperty, LinearInWhatIsGiven) {
  Case c = wide(37, 70);
  c.mask = FA_MASK_CAUSAL, c.dlse = true, c.softcap = 2, c.bias = "f32:hqk", c.dbias = "hk", c.sinks = c.dsinks = "h";
  const BackwardInstance once(c), twice(c);
  twice.dout.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
    twice.dout.set(i, j, k, l, 2 * once.dout.get(i, j, k, l));
  });
  twice.dlse.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
    twice.dlse.set(i, j, k, l, 2 * once.dlse.get(i, j, k, l));
  });
  run(once);
  run(twice);
  for (size_t n = 0; n < once.outputs().size(); ++n) {
    const Tensor &a = *once.outputs()[n].tensor, &b = *twice.outputs()[n].tensor;
    a.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
      ASSERT_EQ(b.get(i, j, k, l), 2 * a.get(i, j, k, l)) << once.outputs()[n].name << "\n" << repeat_line(c, kernel);
    });
  }
}

/// Rows of dout or dlse far below their neighbours, as tokens have that hardly count: each row's errors are relative to
/// the row.
// [F170]
TEST_P(BackwardProperty, RowsOfAnySize) {
  for (const bool by_dlse : {false, true}) {
    Case c = wide(150, 170);
    c.b = 1, c.mask = FA_MASK_CAUSAL, c.dout_fall = 12, c.dout_amp = by_dlse ? 0 : 256, c.dlse = by_dlse;
    expect_right(BackwardInstance(c), by_dlse ? "dlse" : "dout");
  }
}

/// Keys that no query attends, and rows that attend none.
// [F168] [F169] [F171]
TEST_P(BackwardProperty, ZeroWhereMasked) {
  Case c = wide(40, 90);
  c.mask = FA_MASK_CAUSAL_TOP_LEFT, c.bias = "f32:bhqk", c.dbias = "bhqk";  // keys from 40 on are nobody's
  const BackwardInstance keys(c);
  for (int64_t j = 40; j < 90; ++j)
    for (int64_t d = 0; d < c.d; ++d) keys.k.set(1, j, 0, d, nan), keys.v.set(1, j, 1, d, infinity);
  run(keys);
  for (int64_t j = 40; j < 90; ++j) {
    for (int64_t d = 0; d < c.d; ++d) {
      ASSERT_EQ(keys.dk.get(1, j, 0, d), 0) << repeat_line(c, kernel);
      ASSERT_EQ(keys.dv.get(1, j, 1, d), 0) << repeat_line(c, kernel);
    }
    ASSERT_EQ(keys.dbias.get(1, 0, 39, j), 0) << repeat_line(c, kernel);
  }
  EXPECT_EQ(compare(keys, ExpectedGradients(keys)), "");

  c.mask = FA_MASK_CAUSAL, c.sq = 90, c.sk = 40;  // the first 50 queries see nothing, and hold NaN
  const BackwardInstance rows(c);
  ASSERT_TRUE(std::isnan(rows.dout.get(0, 49, 0, 0)));
  run(rows);
  for (int64_t i = 0; i < 50; ++i)
    for (int64_t d = 0; d < c.d; ++d) ASSERT_EQ(rows.dq.get(0, i, 3, d), 0) << repeat_line(c, kernel);
  EXPECT_EQ(compare(rows, ExpectedGradients(rows)), "");
}

/// An lse of -inf says that a row has no keys, whatever its mask does.
// [F168]
TEST_P(BackwardProperty, RowsThatAreSaidToBeEmpty) {
  Case c = wide(40, 50);
  c.sinks = c.dsinks = "bh", c.bias = "f32:hqk", c.dbias = "hqk", c.dlse = true;
  const BackwardInstance instance(c);
  for (int64_t i = 3; i < 40; i += 5) {
    instance.lse.set(1, 2, i, 0, -infinity);
    instance.dlse.set(1, 2, i, 0, nan);
    for (int64_t d = 0; d < c.d; ++d) instance.dout.set(1, i, 2, d, nan), instance.q.set(1, i, 2, d, infinity);
  }
  expect_right(instance, "rows without keys");
  for (int64_t d = 0; d < c.d; ++d) ASSERT_EQ(instance.dq.get(1, 8, 2, d), 0) << repeat_line(c, kernel);
}

/// NaN and infinities reach the gradients of the rows that attend them, and no others.
// [F164] [F165] [F166] [F169]
TEST_P(BackwardProperty, NothingLeaks) {
  struct Plant {
    const char *what;
    void (*set)(const BackwardInstance &);
  };
  const Plant plants[] = {
      {"NaN in a key", [](const BackwardInstance &s) { s.k.set(0, 60, 0, 3, nan); }},
      {"infinity in a value", [](const BackwardInstance &s) { s.v.set(1, 5, 1, 0, -infinity); }},
      {"NaN in a query", [](const BackwardInstance &s) { s.q.set(0, 7, 2, 1, nan); }},
      {"infinity in dout", [](const BackwardInstance &s) { s.dout.set(1, 33, 3, 2, infinity); }},
      {"NaN in out", [](const BackwardInstance &s) { s.out.set(0, 20, 1, 0, nan); }},
      {"NaN in lse", [](const BackwardInstance &s) { s.lse.set(1, 0, 12, 0, nan); }},
  };
  // In one loop, and in two passes where a kernel has both.
  for (const uint32_t flags : {0u, uint32_t{FA_FLAG_BATCH_INVARIANT}}) {
    for (const bool window : {false, true}) {
      Case c = wide(70, 70);
      c.mask = FA_MASK_CAUSAL, c.flags = flags;
      if (window) c.window_left = 9;
      for (const Plant &plant : plants) {
        const BackwardInstance instance(c);
        plant.set(instance);
        expect_right(instance, plant.what);
      }
    }
  }
  // A mask, and a bias of -inf, in the middle of tiles.
  for (const bool by_bias : {false, true}) {
    Case c = wide(33, 70);
    (by_bias ? c.bias : c.boolmask) = by_bias ? "f32:k" : "k";
    const BackwardInstance instance(c);
    for (int64_t j = 0; j < 70; ++j) {
      const bool masked = by_bias ? instance.bias.get(0, 0, 0, j) == -infinity : instance.mask.get(0, 0, 0, j) == 0;
      if (masked) instance.k.set(0, j, 1, 2, nan), instance.v.set(0, j, 0, 1, infinity);
    }
    expect_right(instance, "masked keys");
  }
}

/// One element alone, as others may hide where it does not arrive. A call of few queries has other products.
// [F320]
TEST_P(BackwardProperty, NothingIsLost) {
  struct Plant {
    const char *what;
    void (*set)(const BackwardInstance &, int64_t row, double);
  };
  const Plant plants[] = {
      {"query", [](const BackwardInstance &s, int64_t row, double x) { s.q.set(0, row, 2, 1, x); }},
      {"key", [](const BackwardInstance &s, int64_t row, double x) { s.k.set(0, row, 0, 3, x); }},
      {"value", [](const BackwardInstance &s, int64_t row, double x) { s.v.set(1, row, 1, 0, x); }},
      {"dout", [](const BackwardInstance &s, int64_t row, double x) { s.dout.set(1, row, 3, 2, x); }},
      {"out", [](const BackwardInstance &s, int64_t row, double x) { s.out.set(0, row, 1, 0, x); }},
      {"lse", [](const BackwardInstance &s, int64_t row, double x) { s.lse.set(1, 0, row, 0, x); }},
      {"dlse", [](const BackwardInstance &s, int64_t row, double x) { s.dlse.set(1, 1, row, 0, x); }},
      {"bias", [](const BackwardInstance &s, int64_t row, double x) { s.bias.set(0, 0, row, 1, x); }},
  };
  struct Modification {
    double softcap;
    const char *alibi, *bias;
    uint32_t flags;
  };
  const Modification modifications[] = {
      {0, "", "", 0},       {0, "", "", FA_FLAG_BATCH_INVARIANT},
      {0, "h", "", 0},      {0, "", "f32:qk", 0},
      {3, "", "", 0},       {3, "h", "", FA_FLAG_BATCH_INVARIANT},
      {3, "", "f32:qk", 0}, {3, "", "f32:qk", FA_FLAG_BIAS_BEFORE_SOFTCAP},
  };
  for (const Modification &m : modifications) {
    if (!in_shard(static_cast<uint64_t>(&m - modifications))) continue;
    for (const int64_t queries : {2, 20}) {
      Case c = wide(queries, 25);
      c.mask = FA_MASK_CAUSAL, c.softcap = m.softcap, c.alibi = m.alibi, c.flags = m.flags, c.dlse = true;
      c.bias = m.bias, c.dbias = *m.bias ? "qk" : "";
      for (const Plant &plant : plants) {
        if (std::string(plant.what) == "bias" && !*m.bias) continue;
        for (const double x : {nan, queries == 2 ? infinity : -infinity}) {
          const BackwardInstance instance(c);
          plant.set(instance, queries / 2, x);
          expect_right(instance, (plant.what + (" of " + std::to_string(x))).c_str());
        }
      }
    }
  }
}

/// Weights of a row add up to 1, and a constant added to all scores changes nothing.
TEST_P(BackwardProperty, SumRules) {
  const Case c = wide(37, 66);
  const BackwardInstance whole(c);
  run(whole);
  for (int64_t b = 0; b < c.b; ++b) {
    for (int64_t kv = 0; kv < c.hkv; ++kv) {
      for (int64_t d = 0; d < c.d; ++d) {
        double of_v = 0, of_dout = 0, of_k = 0, magnitude = 0;
        for (int64_t j = 0; j < c.sk; ++j) {
          of_v += whole.dv.get(b, j, kv, d);
          of_k += whole.dk.get(b, j, kv, d);
          magnitude += std::abs(whole.dk.get(b, j, kv, d));
        }
        for (int64_t i = 0; i < c.sq; ++i)
          for (int64_t h = 2 * kv; h < 2 * kv + 2; ++h) of_dout += whole.dout.get(b, i, h, d);
        const double u = c.q == FA_F32 ? 1e-5 : c.q == FA_F16 ? 4e-3 : 3e-2;
        EXPECT_NEAR(of_v, of_dout, u * (1 + double(c.sq))) << repeat_line(c, kernel);
        EXPECT_NEAR(of_k, 0, u * (1 + magnitude)) << repeat_line(c, kernel);
      }
    }
  }
}

/// Keys in another order have the same gradients in that order.
TEST_P(BackwardProperty, PermutationOfKeys) {
  const Case c = wide(37, 66);
  const BackwardInstance forwards(c);
  BackwardInstance backwards(c);
  run(forwards);
  for (fa_tensor fa_backward_args::*tensor : {&fa_backward_args::k, &fa_backward_args::v}) {
    fa_tensor &t = backwards.call.*tensor;
    t.data = (tensor == &fa_backward_args::k ? backwards.k : backwards.v).at(0, c.sk - 1, 0, 0);
    t.stride[1] = -t.stride[1];
  }
  run(backwards);
  const reference::Gradients g = reference::gradients(forwards.desc, forwards.call);
  const auto expect_same = [&](const Tensor &a, const Tensor &b, const reference::Gradient &exact, bool reversed) {
    a.each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t n) {
      const double bound = 2 * exact.bound[size_t(n)] + 1e-6 * std::abs(exact.value[size_t(n)]) + 1e-30;
      ASSERT_NEAR(a.get(i, j, k, l), b.get(i, reversed ? c.sk - 1 - j : j, k, l), bound) << repeat_line(c, kernel);
    });
  };
  expect_same(forwards.dq, backwards.dq, g.dq, false);
  expect_same(forwards.dk, backwards.dk, g.dk, true);
  expect_same(forwards.dv, backwards.dv, g.dv, true);
}

/// The keys in two calls, with the out and lse of all of them, as a ring of machines has them.
// [F160] [F178]
TEST_P(BackwardProperty, PartsOfTheKeysAddUp) {
  Case c = wide(37, 66);
  c.mask = FA_MASK_CAUSAL;
  constexpr int64_t first = 29;
  BackwardInstance instance(c);
  const Op op(instance.desc, kernel);
  const fa_backward_args whole = instance.call;
  GuardedInts offsets({0, 0}, Guard::end);
  for (const bool second : {false, true}) {
    fa_backward_args part = whole;
    const int64_t from = second ? first : 0, keys = second ? c.sk - first : first;
    offsets[0] = offsets[1] = int32_t(c.sk - c.sq - from);
    part.q_offset = offsets.data();
    for (fa_tensor *t : {&part.k, &part.v, &part.dk, &part.dv}) {
      t->data = static_cast<char *>(t->data) + from * t->stride[1] * dtype_bytes(t->dtype);
      t->shape[1] = keys;
    }
    part.accumulate = second ? FA_ACCUMULATE_DQ : 0;
    instance.call = part;
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error();
  }
  instance.call = whole;
  EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "");
  EXPECT_EQ(instance.gradients_untouched(), "");
}

class BackwardBitwise : public BackwardProperty {
 protected:
  /// Calls that an engine shares out in different ways.
  std::vector<Case> cases() const {
    std::vector<Case> list;
    const auto add = [&](auto change) {
      Case c;
      c.backward = true;
      c.b = 2, c.sq = slow ? 70 : 150, c.sk = slow ? 90 : 300, c.hq = 2, c.hkv = 1, c.d = 32;
      change(&c);
      list.push_back(typed(c, list.size()));
    };
    add([](Case *c) { c->mask = FA_MASK_CAUSAL; });
    add([](Case *c) { c->b = 1, c->hq = 1, c->bias = "f32:hk", c->dbias = "k", c->sinks = c->dsinks = "h"; });
    add([](Case *c) { c->sq = 1, c->hq = 8, c->sk = 1000; });
    add([](Case *c) { c->b = 4, c->cu_q = c->cu_k = true, c->mask = FA_MASK_CAUSAL, c->sq = 70, c->sk = 90; });
    add([](Case *c) { c->b = 5, c->batch_idx = true, c->sq = 40, c->sk = 50; });
    add([](Case *c) { c->b = 1, c->sq = c->sk = 270, c->hq = 4; });  // tiles of keys that GPUs add to dq in a fixed order
    return list;
  }
};

// [F52]
TEST_P(BackwardBitwise, RerunAndNumberOfThreads) {
  std::vector<Case> all = cases();
  Case &groups = all.emplace_back(all.front());  // of tiles: two threads take them whole, others share them
  groups.b = groups.hq = 1, groups.mask = FA_MASK_NONE, groups.sq = slow ? 130 : 300, groups.sk = 4000, groups.d = 16;
  for (const Case &c : all) {
    const BackwardInstance first(c);
    run(first);
    BackwardInstance again(c);
    for (const int32_t threads : {1, 2, 3, 8}) {
      again.c.threads = again.desc.num_threads = threads;
      again.clear_gradients();
      run(again);
      ASSERT_EQ(same_gradients(first, again, kernel), "");
    }
  }
}

// [F192]
TEST_P(BackwardBitwise, ContentsOfTheWorkspace) {
  for (const Case &c : cases()) {
    const BackwardInstance without(c);
    run(without);
    BackwardInstance with(c);
    with.c.workspace = true;
    with.c.threads = with.desc.num_threads = 2;
    for (const int fill : {0, 0xff, 0x3f}) {
      with.clear_gradients();
      run(with, fill);
      ASSERT_EQ(same_gradients(without, with, kernel), "") << "workspace full of " << fill;
    }
  }
}

/// A sequence of a batch, and alone.
// [F186]
TEST_P(BackwardBitwise, OtherSequencesChangeNothing) {
  Case c = typed(Case{});
  c.backward = true;
  c.b = 3, c.sq = 70, c.sk = 90, c.hq = 4, c.hkv = 2, c.d = 24, c.mask = FA_MASK_CAUSAL,
  c.flags = FA_FLAG_BATCH_INVARIANT;
  const BackwardInstance all(c);
  run(all);
  BackwardInstance alone(c);
  fa_backward_args &one = alone.call;
  for (fa_tensor *t : {&one.q, &one.k, &one.v, &one.out, &one.lse, &one.dout, &one.dq, &one.dk, &one.dv}) {
    t->data = static_cast<char *>(t->data) + t->stride[0] * dtype_bytes(t->dtype);
    t->shape[0] = 1;
  }
  const Op op(alone.desc, kernel);
  ASSERT_EQ(backward(op, alone), FA_OK) << fa_last_error();
  for (size_t n = 0; n < 3; ++n) {
    const Tensor &a = *all.outputs()[n].tensor, &b = *alone.outputs()[n].tensor;
    for (int64_t j = 0; j < a.shape()[1]; ++j)
      for (int64_t h = 0; h < a.shape()[2]; ++h)
        for (int64_t d = 0; d < a.shape()[3]; ++d)
          ASSERT_EQ(a.get(1, j, h, d), b.get(1, j, h, d)) << all.outputs()[n].name << "\n" << repeat_line(c, kernel);
  }
}

TEST_ALL_TARGETS(BackwardProperty, {"f32", "f16", "bf16"});
TEST_ALL_TARGETS(BackwardBitwise, {"f32", "f16", "bf16"});

}  // namespace
}  // namespace test

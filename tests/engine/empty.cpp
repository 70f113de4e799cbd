// empty.*: each dimension of a call as 0, alone and with others, while the rest are not: the outputs are written, with
// zeros, and nothing else is read or written.
#include <gtest/gtest.h>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/gpu.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

/// Options of a call next to its sizes.
struct Form {
  const char *name;
  void (*add)(Case *c);
};

const Form forms[] = {
    {"padded", [](Case *) {}},
    {"cu_seqlens_q", [](Case *c) { c->cu_q = true; }},
    {"cu_seqlens_k", [](Case *c) { c->cu_k = true; }},
    {"both", [](Case *c) { c->cu_q = c->cu_k = true; }},
    {"used", [](Case *c) { c->used_q = c->used_k = c->leftpad = c->offset = true; }},
    {"kv_batch_idx", [](Case *c) { c->batch_idx = true; }},
    {"pages", [](Case *c) { c->page = 16; }},
};

const Form features[] = {
    {"nothing", [](Case *) {}},
    {"causal", [](Case *c) { c->mask = FA_MASK_CAUSAL, c->workspace = true; }},
    {"sums", [](Case *c) { c->bias = "f32:none", c->dbias = "none", c->sinks = c->dsinks = "h"; }},
    {"scores", [](Case *c) { c->softcap = 3, c->alibi = "h", c->window_left = 4, c->boolmask = "none"; }},
    {"each", [](Case *c) { c->bias = "f16:none", c->dbias = "bhqk", c->sinks = c->dsinks = "bh", c->dlse = true; }},
    {"invariant", [](Case *c) { c->flags = FA_FLAG_BATCH_INVARIANT, c->delta = true; }},
    {"splits", [](Case *c) { c->splits = 3, c->flags = FA_FLAG_NONDETERMINISTIC, c->bounds = true; }},
    {"added",
     [](Case *c) {
       c->bias = "f32:none", c->dbias = "none", c->sinks = c->dsinks = "h", c->accumulate = "qkvbs";
       c->dq = c->dk = c->dv_type = FA_F32;
     }},
};

struct Sizes {
  int64_t b, sq, sk, hq, hkv;
};

/// All that have a 0. Heads of queries are a multiple of those of keys.
std::vector<Sizes> sizes_with_zero() {
  std::vector<Sizes> list;
  for (const int64_t b : {2, 0})
    for (const int64_t sq : {21, 0})
      for (const int64_t sk : {150, 0})
        for (const int64_t hq : {4, 0})
          for (const int64_t hkv : {2, 0})
            if ((hkv > 0 || hq == 0) && (b * sq * sk * hq * hkv == 0)) list.push_back({b, sq, sk, hq, hkv});
  return list;
}

class Empty : public EngineTest {
 protected:
  /// A case of more than 32 columns, which every family has.
  Case sized(const Sizes &s) {
    Case c;
    c.b = s.b, c.sq = s.sq, c.sk = s.sk, c.hq = s.hq, c.hkv = s.hkv, c.d = 40, c.seed = ++count_;
    return typed(c, count_);
  }

  /// Both passes; pages have no gradients.
  void check(Case c) {
    if (!in_shard(c.seed)) return;
    EXPECT_EQ(failure_of(c, kernel), "");
    if (c.page) return;
    c.backward = true;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  /// Calls whose arrays are not those of their cases: change(instance, its fa_forward_args or fa_backward_args).
  template <class F>
  void check_changed(Case c, F change) const {
    Instance instance(c);
    change(instance, &instance.args);
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "");
    EXPECT_EQ(instance.untouched(), "");
    c.backward = true;
    BackwardInstance gradients(c);
    change(gradients, &gradients.args);
    change(gradients, &gradients.call);
    ASSERT_EQ(backward(op, gradients), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(gradients, ExpectedGradients(gradients)), "");
    EXPECT_EQ(gradients.gradients_untouched(), "");
  }

 private:
  uint64_t count_ = 0;
};

// [F19] [F20] [F171] [F173]
TEST_P(Empty, EachDimension) {
  size_t number = 0;
  for (const Sizes &s : sizes_with_zero())
    for (const Form &form : forms) {
      number++;
      for (size_t i = 0; i < std::size(features); i++) {
        if (slow && i != number % std::size(features) && i != (number * 3 + 1) % std::size(features)) continue;
        SCOPED_TRACE(std::string(form.name) + ", " + features[i].name);
        Case c = sized(s);
        features[i].add(&c), form.add(&c);
        if (c.page && c.b == 0) continue;  // whose table is in the next test but one
        check(c);
      }
    }
}

/// Sequences without rows among those of a call that has some, and nothing else.
// [F20] [F171] [F172]
TEST_P(Empty, EachSequence) {
  for (const bool queries : {true, false})
    for (const bool keys : {true, false}) {
      for (const Form &form : forms) {
        Case c = sized({3, 21, 40, 4, 2});
        form.add(&c);
        if (c.page || !(c.cu_q || c.cu_k || c.used_q) || !in_shard(c.seed)) continue;
        SCOPED_TRACE(form.name);
        check_changed(c, [&](const Instance &instance, auto *) {
          for (size_t b = 0; b < 3; b++) {
            if (queries && c.cu_q) instance.cu_seqlens_q[b + 1] = instance.cu_seqlens_q[0];
            if (keys && c.cu_k) instance.cu_seqlens_k[b + 1] = instance.cu_seqlens_k[0];
            if (queries && c.used_q) instance.seqused_q[b] = 0;
            if (keys && c.used_k) instance.leftpad_k[b] = instance.seqused_k[b];
          }
        });
      }
    }
}

/// No page at all, and sequences that have room for none.
// [F19] [F20]
TEST_P(Empty, Pages) {
  for (const int64_t b : {2, 0}) {
    Case c = sized({b, 21, 0, 4, 2});
    c.page = 16;
    Instance instance(c);
    instance.k = Tensor({0, 16, 2, c.d}, c.kv_type(), Layout::bshd, Guard::end);
    instance.v = Tensor({0, 16, 2, c.d}, c.kv_type(), Layout::bshd, Guard::end);
    instance.bind();
    int32_t nowhere = 0;
    instance.args.block_table.data = &nowhere;  // it is there, and has no entries
    instance.args.block_table.shape[1] = 0;
    instance.args.max_seqlen_k = 0;
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "");
  }
}

/// No sequences, but tensors with rows, which belong to none.
// [F106] [F172]
TEST_P(Empty, SequencesOfKeysAlone) {
  Case c = sized({0, 0, 0, 4, 2});
  c.cu_q = c.cu_k = true, c.bias = "f32:none", c.dbias = "none", c.sinks = c.dsinks = "h";
  BackwardInstance instance(c);
  for (Tensor *t : {&instance.k, &instance.v, &instance.dk, &instance.dv})
    *t = Tensor({1, 5, 2, c.d}, c.kv_type(), Layout::bshd, Guard::end);
  instance.bind();
  instance.bind_call();
  const Op op(instance.desc, kernel);
  ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
  instance.clear_gradients();
  ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error();
  EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "");
  for (const Tensor *t : {&instance.dk, &instance.dv}) EXPECT_EQ(t->untouched_outside(std::vector<char>(5)), "");
}

/// An array of no entries may be anywhere, one past the end of a mapping included: nothing looks at it.
// [F20] [F173]
TEST_P(Empty, ArraysThatEndWithAMapping) {
  for (const Form &form : forms) {
    Case c = sized({0, 21, 40, 4, 2});
    c.bias = "f32:none", c.dbias = "none", c.sinks = c.dsinks = "h";
    form.add(&c);
    if (c.page || !in_shard(c.seed)) continue;
    SCOPED_TRACE(form.name);
    const GuardedInts last({0}, Guard::end);
    check_changed(c, [&](const Instance &, auto *args) {
      const int32_t *const end = last.data() + 1;
      args->seqused_q = args->seqused_k = args->leftpad_k = args->q_offset = end;
      if (!c.cu_k) args->kv_batch_idx = end;
    });
  }
}

TEST_ALL_TARGETS(Empty, all_types);

}  // namespace
}  // namespace test

// backward.*: the gradients of every kernel against the oracle's, over the shared case list.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "engine/features.h"
#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/gpu.h"
#include "reference/random.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

class Backward : public EngineTest {
 protected:
  /// The case with options of the backward pass, which vary from case to case.
  Case complete(Case c) {
    c = typed(c, count_);
    c.backward = true;
    c.seed = ++count_;
    Random random(hash(c.seed, 7, 0));
    if (!c.bias.empty() && c.dbias.empty())
      c.dbias = random.one_of<const char *>("bhqk", "hqk", "qk", "k", "bh", "none");
    if (!c.sinks.empty() && c.dsinks.empty()) c.dsinks = random.one_of<const char *>("h", "bh");
    if (random.chance(30)) c.dlse = true;
    if (random.chance(15)) c.delta = true;
    if (random.chance(25) || c.accumulate != "none") take_types(&c, &random);
    return c;
  }

  void check(const Case &given) {
    const Case c = complete(given);
    if (!is_selected(c)) return;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  void check_refused(const Case &given, const std::vector<std::string> &names) {
    const Case c = complete(given);
    if (!is_selected(c)) return;
    Case plain = c;  // a refused call has no out and lse
    plain.page = 0, plain.batch_idx = plain.batch_idx && !plain.cu_k, plain.cu_k = plain.cu_k && !plain.batch_idx;
    BackwardInstance instance(plain);
    const int32_t none[64] = {};
    if (c.page) fa_tensor_init(&instance.call.block_table, const_cast<int32_t *>(none), FA_I32, c.b, 1, 1, 1);
    if (c.batch_idx) instance.call.kv_batch_idx = none;
    if (c.cu_k) instance.call.cu_seqlens_k = none, instance.call.num_seqs = c.b;
    const std::vector<char> before = instance.gradient_bits();
    const Op op(instance.desc, kernel);
    const fa_status status = op ? fa_backward(op.get(), &instance.call) : op.status();
    expect_error(status, FA_ERROR_INVALID_ARGUMENT, names, c);
    EXPECT_EQ(instance.gradient_bits(), before);
  }

  /// Whether this target runs the case of that number: one of `parts` cases, others than the next target.
  bool is_sampled(size_t number, size_t parts) const {
    const std::vector<Target> all = all_targets(all_types);
    const auto mine = std::find_if(all.begin(), all.end(), [](const Target &target) {
      return target.types == GetParam().types && target.arch == GetParam().arch;
    });
    return (number + size_t(mine - all.begin())) % parts == 0;
  }

  /// Whether this target runs the case. Emulated GPUs, whose kernels have one source, run one shard of the cases more.
  bool is_selected(const Case &c) const {
    constexpr size_t emulated_gpus = 4;
    if (is_gpu(kernel) && slow && !is_sampled(hash(c.seed), emulated_gpus)) return false;
    return in_shard(c.seed);
  }

 private:
  /// Types of gradients that are legal with the case's accumulation: those that are added to are f32.
  static void take_types(Case *c, Random *random) {
    const auto type = [&](char letter, fa_dtype *dtype) {
      const bool added = c->accumulate.find(letter) != std::string::npos;
      if (added || random->chance(50)) *dtype = FA_F32;
    };
    type('q', &c->dq);
    type('k', &c->dk);
    type('v', &c->dv_type);
    type('b', &c->dbias_type);
  }

  uint64_t count_ = 0;
};

Case pair_case(int64_t sq, int64_t sk) {
  Case c;
  c.b = 2, c.sq = sq, c.sk = sk, c.hq = c.hkv = 2, c.d = 12;
  return c;
}

/// For a combination that is refused, the names that the error must hold: fa_create's come first.
std::vector<std::string> refused_backward(const Case &c) {
  Case described = c;
  described.page = 0, described.cu_k = described.batch_idx = false;
  if (const auto names = refused(described); !names.empty() || c.page == 0) return names.empty() ? refused(c) : names;
  return {"block_table"};
}

// [F160] [F164] [F165] [F168] [F170] [F171] [F172] [F173] [F177]
TEST_P(Backward, EachFeatureAlone) {
  const std::vector<Feature> &list = backward_features();
  for (size_t b = 0; b < bases().size(); ++b) {
    check(bases()[b]);
    for (size_t i = 0; i < list.size(); ++i) {
      if (!is_sampled(i + b, slow ? 4 : 2)) continue;  // at some of the sizes
      SCOPED_TRACE(list[i].name);
      Case c = bases()[b];
      list[i].add(&c);
      if (refused_backward(c).empty()) check(c);
    }
  }
}

// [F163] [F180]
TEST_P(Backward, FeaturesInPairs) {
  const std::vector<Feature> &list = backward_features();
  const Case small[] = {pair_case(9, 21), pair_case(37, 18), pair_case(1, 70)};
  size_t number = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = i + 1; j < list.size(); ++j) {
      if (std::string(list[i].group) == list[j].group) continue;
      Case c = small[number % 3];
      if (!is_sampled(hash(number++), slow ? 24 : 8)) continue;
      SCOPED_TRACE(std::string(list[i].name) + " with " + list[j].name);
      list[i].add(&c);
      list[j].add(&c);
      if (const auto names = refused_backward(c); !names.empty()) {
        check_refused(c, names);
      } else {
        check(c);
      }
    }
  }
}

// [F171]
TEST_P(Backward, Lengths) {
  const fa_mask masks[] = {FA_MASK_NONE, FA_MASK_CAUSAL, FA_MASK_CAUSAL_TOP_LEFT};
  size_t number = 0;
  for (const int64_t sq : {0, 1, 3, 15, 17, 33, 64, 65, 129}) {
    for (const int64_t sk : {0, 1, 2, 16, 31, 65, 128, 129, 257}) {
      if (slow && sq * sk > 2500) continue;
      Case c;
      c.sq = sq, c.sk = sk, c.d = 20, c.mask = masks[number++ % 3];
      check(c);
    }
  }
}

TEST_P(Backward, NothingToDo) {
  for (const Case &c : empty_cases()) check(c);  // without keys dsinks alone has something to sum
}

TEST_P(Backward, HeadDims) {
  for (const int64_t d : {1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 40, 64, 80, 96, 100, 128, 192, 256}) {
    if (slow && d > 100) continue;
    Case c;
    c.hq = 2, c.d = d, c.sq = 21, c.sk = 26;
    check(c);
    c.dv = d % 37 + 1;
    check(c);
  }
  for (const int64_t dv : {512, 576}) {
    if (slow && dv == 512) continue;
    Case c;
    c.hq = 2, c.d = 576, c.dv = dv, c.sq = 5, c.sk = 19;
    check(c);
  }
}

// [F165]
TEST_P(Backward, GroupsOfHeads) {
  for (const int64_t group : {1, 2, 3, 8}) {
    for (const int64_t sq : {1, 5, 33}) {
      Case c;
      c.b = 2, c.hkv = 2, c.hq = 2 * group, c.sq = sq, c.sk = 70, c.d = 16, c.mask = FA_MASK_CAUSAL;
      check(c);
    }
  }
}

/// Entries that share rows of k and v, of which they use different parts.
// [F174]
TEST_P(Backward, SharedRowsOfTheCache) {
  for (const bool added : {false, true}) {
    Case c;
    c.b = 7, c.sq = 11, c.sk = 30, c.hq = 4, c.hkv = 2, c.d = 12, c.batch_idx = c.used_k = c.leftpad = true;
    if (added) c.dk = c.dv_type = FA_F32, c.accumulate = "kv";
    check(c);
    c.mask = FA_MASK_CAUSAL, c.threads = 3;
    check(c);
  }
}

/// More rows than any tile has, both ways.
TEST_P(Backward, LongSequences) {
  for (const bool few_queries : {false, true}) {
    Case c;
    c.hq = 2, c.sq = few_queries ? 3 : 600, c.sk = few_queries ? 1100 : 300, c.d = 16, c.threads = 2;
    if (slow) c.sq = std::min<int64_t>(c.sq, 150), c.sk = std::min<int64_t>(c.sk, 300);
    check(c);
    c.window_left = 70, c.window_right = 10;
    check(c);
  }
}

/// dq, dk and dv as slices of one tensor (batch, sequence, heads, dim).
// [F177]
TEST_P(Backward, PackedGradients) {
  Case c = typed(Case{});
  c.kv = FA_DTYPE_DEFAULT, c.backward = true;
  c.b = 2, c.sq = c.sk = 20, c.hq = c.hkv = 3, c.d = 12, c.mask = FA_MASK_CAUSAL;
  BackwardInstance instance(c);
  const Tensor packed({2, 20, 9, 12}, c.q, Layout::bshd, Guard::end);
  fa_tensor *slices[] = {&instance.call.dq, &instance.call.dk, &instance.call.dv};
  for (int64_t slice = 0; slice < 3; ++slice) {
    *slices[slice] = packed.view();
    slices[slice]->data = packed.at(0, 0, 3 * slice, 0);
    slices[slice]->shape[2] = 3;
  }
  const Op op(instance.desc, kernel);
  ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error();
  const Tensor *own[] = {&instance.dq, &instance.dk, &instance.dv};
  for (int64_t slice = 0; slice < 3; ++slice)
    own[slice]->each([&](int64_t i, int64_t j, int64_t k, int64_t l, int64_t) {
      own[slice]->set(i, j, k, l, packed.get(i, j, 3 * slice + k, l));
    });
  EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "");
}

/// The largest error of all gradients, which are f32 so that their rounding has no part in it. A small case is a
/// matter of luck: the largest of many.
// [F170]
TEST_P(Backward, Accuracy) {
  if (is_mixed()) return;  // figures are of one type
  const auto report = [&](const char *name, int64_t s) {
    if (!in_shard(uint64_t(s))) return;  // of another shard
    Errors worst;
    for (uint64_t seed = 1; seed <= (s == 4 ? 16 : 1); ++seed) {
      Case c = typed(Case{});
      c.backward = true, c.seed = seed;
      c.sq = c.sk = s, c.d = s == 4 ? 4 : 64, c.hq = c.hkv = 2;
      for (const Feature &feature : backward_features())
        if (std::string(feature.name) == name || std::string(feature.name) == "gradients_f32") feature.add(&c);
      Errors e;
      EXPECT_EQ(failure_of(c, kernel, &e), "");
      worst.out = std::max(worst.out, e.out);
      worst.naive = std::max(worst.naive, e.naive);
      worst.of_bound = std::max(worst.of_bound, e.of_bound);
    }
    std::printf("%-13s S=%-2lld largest error %.2e (naive %.2e), %.3f of the bound\n", name, (long long)s, worst.out,
                worst.naive, worst.of_bound);
  };
  report("plain", 4);
  if (slow) return;
  for (const char *name :
       {"plain", "causal", "window", "softcap", "dbias_whole", "alibi_heads", "dsinks", "grouped_heads", "peaked"})
    report(name, 64);
}

TEST_ALL_TARGETS(Backward, all_types);

}  // namespace
}  // namespace test

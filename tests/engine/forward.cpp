// forward.*: every kernel against the oracle, over the shared case list.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/features.h"
#include "engine/target.h"
#include "reference/gpu.h"
#include "reference/random.h"
#include "reference/run.h"
#include "reference/sanitizer.h"
#include "support/npy.h"

namespace test {
using namespace reference;
namespace {

class Forward : public EngineTest {
 protected:
  /// Checks a case; its number chooses the seed, and of mixed types the combination.
  void check(Case c) {
    c = typed(c, count_);
    c.seed = ++count_;
    if (!in_shard(c.seed)) return;
    EXPECT_EQ(failure_of(c, kernel), "");
  }

  /// Whether this target runs pair `number` of features. Emulated SM 75 and 80, the oldest with each way to copy tiles,
  /// run all pairs; any other GPU runs a quarter, different from the next GPU's.
  bool samples_pair(size_t number) const {
    const std::vector<std::string> all = gpu_archs();
    const size_t index = size_t(std::find(all.begin(), all.end(), GetParam().arch) - all.begin());
    return !slow || index == all.size() || GetParam().arch == "sm_75" || GetParam().arch == "sm_80" ||
           (hash(number) + index) % 4 == 0;
  }

  void check_refused(Case c, const std::vector<std::string> &names, fa_status expected = FA_ERROR_INVALID_ARGUMENT) {
    c = typed(c, count_++);
    const Instance instance(c);
    const Op op(instance.desc, kernel);
    const fa_status status = op ? forward(op, instance) : op.status();
    expect_error(status, expected, names, c);
    EXPECT_EQ(instance.out.untouched_outside(std::vector<char>(instance.written_rows().size(), 0)), "");
  }

 private:
  uint64_t count_ = 0;
};

// [F9] [F29] [F88] [F91]
TEST_P(Forward, EachFeatureAlone) {
  for (const Case &base : bases()) {
    check(base);
    for (const Feature &feature : features()) {
      SCOPED_TRACE(feature.name);
      Case c = base;
      feature.add(&c);
      check(c);
    }
  }
}

// [F43] [F44] [F90]
TEST_P(Forward, FeaturesInPairs) {
  size_t number = 0;
  for (size_t i = 0; i < features().size(); ++i) {
    for (size_t j = i + 1; j < features().size(); ++j) {
      const Feature &a = features()[i], &b = features()[j];
      if (std::string(a.group) == b.group) continue;
      SCOPED_TRACE(std::string(a.name) + " with " + b.name);
      Case c = pair_bases()[number % pair_bases().size()];
      if (!samples_pair(number++)) continue;
      a.add(&c);
      b.add(&c);
      if (const auto names = refused(c); !names.empty()) {
        check_refused(c, names);
      } else {
        check(c);
      }
    }
  }
}

TEST_P(Forward, RefusesTheFlagWithoutItsSoftcap) {
  Case c;
  c.flags = FA_FLAG_BIAS_BEFORE_SOFTCAP;
  check_refused(c, refused(c));
}

// [F15]
TEST_P(Forward, Lengths) {
  const std::vector<int64_t> queries =
      slow ? std::vector<int64_t>{0, 1, 3, 17, 65}
           : std::vector<int64_t>{0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 65, 97, 127, 129};
  const std::vector<int64_t> keys = slow ? std::vector<int64_t>{0, 1, 16, 129}
                                         : std::vector<int64_t>{0, 1, 2, 3, 15, 16, 17, 64, 65, 127, 128, 129, 257};
  const fa_mask masks[] = {FA_MASK_NONE, FA_MASK_CAUSAL, FA_MASK_CAUSAL_TOP_LEFT};
  size_t number = 0;
  for (const int64_t sq : queries) {
    for (const int64_t sk : keys) {
      Case c;
      c.sq = sq, c.sk = sk, c.d = 20, c.mask = masks[number++ % 3];
      check(c);
    }
  }
}

// [F20]
TEST_P(Forward, NothingToDo) {
  for (const Case &c : empty_cases()) check(c);
}

// [F80]
TEST_P(Forward, HeadDims) {
  std::vector<int64_t> dims = {31, 32, 33, 40, 64, 80, 96, 100, 128, 192, 256, 512};
  for (int64_t d = 1; d <= 20; ++d) dims.push_back(d);
  for (const int64_t d : dims) {
    for (const int64_t sq : {1, 21}) {
      Case c;
      c.hq = 2, c.d = d, c.sq = sq, c.sk = 26;
      check(c);
      c.dv = d % 37 + 1;
      check(c);
    }
  }
  for (const int64_t sq : {1, 21}) {
    Case c;
    c.hq = 8, c.d = 576, c.dv = 512, c.sq = sq, c.sk = 26;
    check(c);
    c.dv = 576;
    check(c);
    c.d = 1;
    check(c);
  }
}

// [F32]
TEST_P(Forward, GroupsOfHeads) {
  for (const int64_t group : {1, 2, 3, 4, 8, 16}) {
    for (const int64_t sq : {1, 2, 5, 33}) {
      Case c;
      c.b = 2, c.hkv = 2, c.hq = 2 * group, c.sq = sq, c.sk = 70, c.d = 32, c.mask = FA_MASK_CAUSAL;
      check(c);
    }
  }
}

TEST_P(Forward, ManyKeys) {
  for (const int64_t sq : {1, 4, 40}) {
    Case c;
    c.hq = 4, c.hkv = 2, c.sq = sq, c.sk = slow ? 700 : 3001, c.d = 32, c.threads = 2;
    check(c);
    c.window_left = 260;
    check(c);
    c.window_left = -1, c.splits = 6, c.alibi = "h";
    check(c);
  }
}

/// q, k and v as slices of one tensor (batch, sequence, 3 x heads, dim).
// [F26]
TEST_P(Forward, PackedQkv) {
  for (const int64_t s : {1, 50}) {
    Case c = typed(Case{}, 0);
    c.kv = FA_DTYPE_DEFAULT, c.b = 2, c.sq = c.sk = s, c.hq = c.hkv = 3, c.d = 20, c.mask = FA_MASK_CAUSAL;
    Instance instance(c);
    const Tensor packed({2, s, 9, 20}, c.q, Layout::bshd, Guard::end);
    packed.randomise(c.seed, 1, 1);
    fa_tensor *slices[] = {&instance.args.q, &instance.args.k, &instance.args.v};
    for (int64_t slice = 0; slice < 3; ++slice) {
      *slices[slice] = packed.view();
      slices[slice]->data = packed.at(0, 0, 3 * slice, 0);
      slices[slice]->shape[2] = 3;
    }
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, Expected(instance)), "");
    EXPECT_EQ(instance.untouched(), "");
  }
}

/// The largest difference that f16 may show at these sizes: S = 4 with D = 4, and S up to 512 with D = 64.
// [F25]
TEST_P(Forward, Accuracy) {
  for (const int64_t s : {4, 64, 65, 128, 192, 256, 512}) {
    if (slow && s > 128) continue;
    Case c = typed(Case{}, uint64_t(s));
    c.sq = c.sk = s, c.d = s == 4 ? 4 : 64, c.hq = c.hkv = 2;
    Errors e;
    EXPECT_EQ(failure_of(c, kernel, &e), "");
    std::printf("S=%-3lld D=%-2lld largest error %.2e (naive %.2e), %.3f of the bound, lse %.3f of its bound\n",
                (long long)s, (long long)c.d, e.out, e.naive, e.of_bound, e.lse_of_bound);
    EXPECT_TRUE(GetParam().types != "f16" || e.out < 2e-3) << repeat_line(c, kernel);
  }
}

TEST_ALL_TARGETS(Forward, all_types);

/// golden.*: three paragraphs through a real model's attention layers.
class Golden : public EngineTest {};

TEST_P(Golden, MiniLM) {
  const std::string folder = TEST_DATA;
  for (const std::string layer : {"/layer0_", "/layer5_"}) {
    Case c = typed(Case{});
    c.b = 3, c.sq = c.sk = 335, c.hq = c.hkv = 12, c.d = 32, c.cu_q = c.cu_k = true, c.out = FA_F32, c.lse = false;
    Instance instance(c);
    for (GuardedInts *cu : {&instance.cu_seqlens_q, &instance.cu_seqlens_k})
      *cu = GuardedInts({0, 36, 121, 335}, Guard::end);
    for (auto [tensor, name] : {std::pair{&instance.q, "q"}, {&instance.k, "k"}, {&instance.v, "v"}}) {
      const std::vector<char> elements = npy_elements(folder + layer + name + ".npy");
      *tensor = Tensor({1, 335, 12, 32}, FA_F16, Layout::bshd, Guard::end);
      ASSERT_EQ(elements.size(), size_t(335 * 12 * 32 * 2));
      std::copy(elements.begin(), elements.end(), tensor->at(0, 0, 0, 0));
    }
    instance.out = Tensor({1, 335, 12, 32}, FA_F32, Layout::bshd, Guard::end);
    instance.bind();
    const Op op(instance.desc, kernel);
    ASSERT_EQ(forward(op, instance), FA_OK) << fa_last_error();

    const std::vector<char> reference = npy_elements(folder + layer + "out.npy");
    const Tensor expected({1, 335, 12, 32}, FA_F32, Layout::bshd, Guard::end);
    ASSERT_EQ(reference.size(), size_t(335 * 12 * 32 * 4));
    std::copy(reference.begin(), reference.end(), expected.at(0, 0, 0, 0));
    double worst = 0;
    expected.each([&](int64_t i, int64_t j, int64_t h, int64_t d, int64_t) {
      worst = std::fmax(worst, std::abs(instance.out.get(i, j, h, d) - expected.get(i, j, h, d)));
    });
    std::printf("%s largest error %.2e\n", layer.c_str() + 1, worst);
    EXPECT_LT(worst, 2e-3);
  }
}

TEST_ALL_TARGETS(Golden, {"f16"});

/// The list of kernels and the list that these tests are built for agree.
TEST(Kernels, AreAllTested) {
  const std::vector<std::string> known = archs();
  for (int32_t i = 0; i < fa_kernel_count(); ++i) {
    fa_kernel info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(fa_kernel_info(i, &info), FA_OK);
    if (std::string(info.device) != "cpu") continue;
    EXPECT_NE(std::find(known.begin(), known.end(), info.arch), known.end()) << info.name << " is tested by no suite";
    if (!info.available) continue;
    for (const fa_dtype dtype : {FA_F32, FA_F16, FA_BF16}) {
      if ((" " + std::string(info.compute_dtypes) + " ").find(" " + std::string(name_of(dtype)) + " ") ==
          std::string::npos)
        continue;
      Case c;
      c.q = dtype;
      EXPECT_EQ(failure_of(c, info.name), "") << info.name << " computes in " << info.compute_dtypes;
    }
  }
}

}  // namespace
}  // namespace test

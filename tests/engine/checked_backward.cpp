// kernels_checked_gradients.*: the kernels of backward in a few small calls, meant for the emulator with all its
// checks. They reach the edges of these kernels: tiles that end early and whole ones, masks, heads that share keys,
// columns that are zero-filled, NaN and infinities.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "engine/target.h"
#include "reference/compare_gradients.h"
#include "reference/run.h"
#include "support/log.h"

namespace test {
using namespace reference;
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class CheckedGradients : public EngineTest {
 protected:
  void expect_right(const Case &c) { EXPECT_EQ(failure_of(typed(c), kernel), ""); }

  /// Tiles that a causal mask cuts, whole ones, those with a few rows; two heads that share keys.
  static Case causal(int64_t dim) {
    Case c;
    c.backward = true;
    c.sq = c.sk = 200, c.hq = 2, c.d = dim, c.mask = FA_MASK_CAUSAL;
    return c;
  }

  /// Scores that need everything, rows shorter than the tile's, gradients of other types, one of them added to.
  static Case scored(int64_t dim) {
    Case c;
    c.backward = true;
    c.b = 2, c.sq = 70, c.sk = 90, c.hq = 4, c.hkv = 2, c.d = dim - 8, c.dv = dim - 16, c.cu_q = c.cu_k = true,
    c.window_left = 20, c.softcap = 3, c.alibi = "h", c.sinks = c.dsinks = "h", c.dlse = true, c.dk = FA_F32,
    c.dq = FA_F32, c.accumulate = "q";
    return c;
  }

  /// Gradients that 16 bits do not hold on the way, and become larger or smaller from row to row.
  static Case large(int64_t dim, double amp) {
    Case c;
    c.backward = true;
    c.sq = 90, c.sk = 140, c.d = dim, c.amp = 2, c.dout_amp = amp, c.dq = c.dk = c.dv_type = FA_F32;
    return c;
  }

  /// All three in one loop, where blocks add to dq in any order.
  static Case in_any_order(int64_t dim) {
    Case c = causal(dim);
    c.flags = FA_FLAG_NONDETERMINISTIC;
    return c;
  }

  /// Rows of dout far below others, in a tile that attends all keys and in one that ends early.
  static Case falling(int64_t dim) {
    Case c = in_any_order(dim);
    c.mask = FA_MASK_NONE, c.dout_amp = 512, c.dout_fall = 12, c.dq = c.dk = FA_F32;
    return c;
  }

  /// In a fixed order of three tiles of keys or more, whose waits heads that share keys make short.
  static Case fixed_order(int64_t dim) {
    Case c = causal(dim);
    c.sq = 400, c.sk = 270, c.hq = 4, c.hkv = 1, c.mask = FA_MASK_NONE;
    return c;
  }

  /// In two passes, one for keys and one for queries.
  static Case in_two_passes(Case c) {
    c.flags = FA_FLAG_BATCH_INVARIANT;
    return c;
  }

  void run(int64_t dim) {
    const Log log;
    for (const Case &c : {causal(dim), scored(dim), large(dim, 0x1p-14), large(dim, 0x1p12)})
      expect_right(in_two_passes(c));
    contain(in_two_passes(causal(dim)));
    EXPECT_TRUE(log.has("fa_backward_dkv") && !log.has("fa_backward_fused")) << log.text;
  }

  /// Whether shared memory holds the tiles of all gradients.
  static bool sums_together(int64_t dim) {
    const std::string &arch = GetParam().arch;
    return dim <= 192 || (arch != "sm_75" && arch != "sm_86" && arch != "sm_89" && arch != "sm_120");
  }

  /// A call that has one loop on GPUs with more shared memory.
  void run_in_two_passes(const Case &c) {
    const Log log;
    expect_right(c);
    EXPECT_TRUE(log.has("in two passes: no kernel of this type and head dimension has one loop")) << log.text;
  }

  void run_in_any_order(int64_t dim) {
    if (!sums_together(dim)) return run_in_two_passes(in_any_order(dim));
    const Log log;
    expect_right(in_any_order(dim));
    contain(in_any_order(dim));
    Case given = in_any_order(dim);  // statistics that do not follow from dout
    given.delta = true;
    contain(given);
    low_scores(dim);
    uneven_scores(dim);
    expect_right(falling(dim));
    EXPECT_TRUE(log.has("fa_backward_fused in any order") && !log.has("dkv") && !log.has("fixed order")) << log.text;
  }

  void run_in_order(int64_t dim) {
    if (!sums_together(dim)) return run_in_two_passes(fixed_order(dim));
    const Log log;
    expect_right(fixed_order(dim));
    Case fall = fixed_order(dim);
    fall.dout_amp = 512, fall.dout_fall = 12, fall.dq = FA_F32;
    expect_right(fall);
    Case slide = fixed_order(dim);  // tiles of keys that begin and end anywhere, in separate sequences
    slide.b = 2, slide.sq = slide.sk = 300, slide.hq = 16, slide.mask = FA_MASK_CAUSAL, slide.window_left = 60;
    slide.cu_q = slide.cu_k = true, slide.dq = FA_F32, slide.accumulate = "q", slide.workspace = true;
    expect_right(slide);
    follow(dim);
    EXPECT_TRUE(log.has("fa_backward_fused in a fixed order") && !log.has("dkv") && !log.has("any order")) << log.text;
  }

  /// Under a softcap and ALiBi: in one loop where kernels of warpgroups or of tensor memory support that.
  void run_modified(int64_t dim, double softcap, const std::string &alibi) {
    const std::string &arch = GetParam().arch;
    const bool of_bf16 = GetParam().types == "bf16";
    const bool boxed = (of_bf16 && (arch == "sm_100a" || arch == "sm_103a" || arch == "sm_110")) ||
                       (arch == "sm_90a" && (of_bf16 ? softcap == 0 || dim > 64 : softcap == 0 && dim > 64));
    const auto modified = [&](Case c) {
      c.softcap = softcap, c.alibi = alibi;
      return c;
    };
    const Log log;
    expect_right(modified(fixed_order(dim)));
    expect_right(modified(in_any_order(dim)));
    Case slide = causal(dim);  // masks that cut tiles, in rows shorter than those, where the offset is not 0
    slide.b = 2, slide.sq = 150, slide.sk = 230, slide.hkv = 1, slide.d = slide.dv = dim - 8, slide.window_left = 90;
    slide.cu_q = slide.cu_k = true, slide.sinks = slide.dsinks = "h", slide.flags = FA_FLAG_NONDETERMINISTIC;
    expect_right(modified(slide));
    contain(modified(in_any_order(dim)));
    Case given = in_any_order(dim);
    given.delta = true;
    contain(modified(given));
    Case steep = in_any_order(dim);  // scores at and far above the cap
    steep.amp = 6;
    expect_right(modified(steep));
    contain_infinity(modified(in_any_order(dim)), &BackwardInstance::dout);  // which reaches dv by its weights alone
    // Of infinite products a softcap makes finite scores.
    if (softcap > 0) contain_infinity(modified(in_any_order(dim)), &BackwardInstance::q);
    EXPECT_EQ(log.has("fa_backward_fused"), boxed) << log.text;
    EXPECT_EQ(log.has("fa_backward_dkv"), !boxed) << log.text;
  }

  /// In a workspace whose counters seem to have risen, or are those at which a call with fewer keys ended: a call's
  /// begin at 0. A block of keys sees the difference if it comes before the one that is next, so there are several
  /// tries.
  void follow(int64_t dim) {
    Case c = fixed_order(dim);
    c.sk = 530, c.hq = 8;
    BackwardInstance longer(typed(c));
    c.sk = 270;
    BackwardInstance shorter(typed(c));
    const Op op(longer.desc, kernel);
    ASSERT_EQ(fa_backward_workspace_size(op.get(), &longer.call, &longer.call.workspace_size), FA_OK);
    const GuardedMemory memory((longer.call.workspace_size + 255) / 256 * 256, Guard::end);
    longer.call.workspace = shorter.call.workspace = memory.data();
    shorter.call.workspace_size = longer.call.workspace_size;
    const ExpectedGradients of_shorter(shorter), of_longer(longer);
    for (int32_t attempt = 1; attempt <= (dim == 32 ? 6 : 1); ++attempt) {
      const int32_t word = 1 + attempt % 2;
      for (size_t at = 0; at < memory.size(); at += sizeof word) std::memcpy(memory.data() + at, &word, sizeof word);
      ASSERT_EQ(backward(op, shorter), FA_OK) << fa_last_error();
      EXPECT_EQ(compare(shorter, of_shorter), "");
    }
    ASSERT_EQ(backward(op, longer), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(longer, of_longer), "");
  }

  /// Elements of a tensor by row and column.
  static void fill(const Tensor &t, const std::function<double(int64_t, int64_t)> &value) {
    for (int64_t b = 0; b < t.shape()[0]; ++b)
      for (int64_t i = 0; i < t.shape()[1]; ++i)
        for (int64_t j = 0; j < t.shape()[2]; ++j)
          for (int64_t d = 0; d < t.shape()[3]; ++d) t.set(b, i, j, d, value(i, d));
  }

  /// Keys whose scores are given, with weights that count for a sequence of `counted` keys of the largest score.
  void run_scores(int64_t dim, const std::function<double(int64_t)> &score, double largest, double counted) {
    Case c = in_any_order(dim);
    c.sk = 140, c.mask = FA_MASK_NONE;
    const BackwardInstance instance(typed(c));
    fill(instance.q, [](int64_t, int64_t column) { return column == 0 ? 16 : 0; });
    fill(instance.k, [&](int64_t key, int64_t column) {
      return column == 0 ? score(key) / 16 * std::sqrt(static_cast<double>(dim)) : 0;
    });
    fill(instance.lse, [&](int64_t, int64_t) { return largest + std::log(counted); });
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "");
  }

  /// Scores so low that keys behind the last one, which are zeros in a tile, would have infinite weights.
  void low_scores(int64_t dim) {
    run_scores(dim, [](int64_t) { return -128.0; }, -128, 140);
  }

  /// Some warps' keys have weights below 2^-8 of the others', and dq is their sum.
  void uneven_scores(int64_t dim) {
    run_scores(dim, [](int64_t key) { return key / 32 % 2 ? -8.0 : 0.0; }, 0, 76);
  }

  /// An element of one tensor alone.
  void contain_infinity(const Case &c, const Tensor BackwardInstance::*tensor) {
    const BackwardInstance instance(typed(c));
    (instance.*tensor).set(0, 30, 0, 2, std::numeric_limits<double>::infinity());
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "");
  }

  /// NaN and infinities reach the gradients of the rows that attend them, and no others; a row whose lse is -inf
  /// reaches none.
  void contain(const Case &c) {
    const BackwardInstance instance(typed(c));
    const double infinity = std::numeric_limits<double>::infinity();
    instance.k.set(0, 150, 0, 1, nan), instance.v.set(0, 199, 0, 0, infinity);
    instance.q.set(0, 30, 0, 2, nan), instance.dout.set(0, 10, 1, 3, infinity);
    instance.dout.set(0, 60, 1, 3, -infinity);  // which reaches keys that the NaN in q does not
    instance.lse.set(0, 1, 140, 0, -infinity), instance.dout.set(0, 140, 1, 5, nan);
    const Op op(instance.desc, kernel);
    ASSERT_EQ(backward(op, instance), FA_OK) << fa_last_error();
    EXPECT_EQ(compare(instance, ExpectedGradients(instance)), "");
  }
};

TEST_P(CheckedGradients, GradientsDim32) {
  run(32);
}
TEST_P(CheckedGradients, GradientsDim64) {
  run(64);
}
TEST_P(CheckedGradients, GradientsDim96) {
  run(96);
}
TEST_P(CheckedGradients, GradientsDim128) {
  run(128);
}
TEST_P(CheckedGradients, GradientsDim192) {
  run(192);
}
TEST_P(CheckedGradients, GradientsDim256) {
  run(256);
}
TEST_P(CheckedGradients, GradientsAnyOrderDim32) {
  run_in_any_order(32);
}
TEST_P(CheckedGradients, GradientsAnyOrderDim64) {
  run_in_any_order(64);
}
TEST_P(CheckedGradients, GradientsAnyOrderDim96) {
  run_in_any_order(96);
}
TEST_P(CheckedGradients, GradientsAnyOrderDim128) {
  run_in_any_order(128);
}
TEST_P(CheckedGradients, GradientsAnyOrderDim192) {
  run_in_any_order(192);
}
TEST_P(CheckedGradients, GradientsAnyOrderDim256) {
  run_in_any_order(256);
}
TEST_P(CheckedGradients, GradientsInOrderDim32) {
  run_in_order(32);
}
TEST_P(CheckedGradients, GradientsInOrderDim64) {
  run_in_order(64);
}
TEST_P(CheckedGradients, GradientsInOrderDim96) {
  run_in_order(96);
}
TEST_P(CheckedGradients, GradientsInOrderDim128) {
  run_in_order(128);
}
TEST_P(CheckedGradients, GradientsInOrderDim192) {
  run_in_order(192);
}
TEST_P(CheckedGradients, GradientsInOrderDim256) {
  run_in_order(256);
}

TEST_P(CheckedGradients, GradientsSoftcapDim64) {
  run_modified(64, 3, "");
}
TEST_P(CheckedGradients, GradientsSoftcapDim96) {
  run_modified(96, 3, "");
}
TEST_P(CheckedGradients, GradientsSoftcapDim128) {
  run_modified(128, 3, "");
}
TEST_P(CheckedGradients, GradientsAlibiDim64) {
  run_modified(64, 0, "h");
}
TEST_P(CheckedGradients, GradientsAlibiDim96) {
  run_modified(96, 0, "h");
}
TEST_P(CheckedGradients, GradientsAlibiDim128) {
  run_modified(128, 0, "h");
}
TEST_P(CheckedGradients, GradientsSoftcapAlibiDim64) {
  run_modified(64, 2, "bh");
}
TEST_P(CheckedGradients, GradientsSoftcapAlibiDim128) {
  run_modified(128, 2, "bh");
}

INSTANTIATE_TEST_SUITE_P(Engine, CheckedGradients, testing::ValuesIn(gpu_targets({"f16", "bf16"})), target_name);

}  // namespace
}  // namespace test

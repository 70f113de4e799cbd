// fa_append into quantised caches: refusals by name, and calls that are legal.
#include <cstdint>
#include <cstring>

#include "append_call.h"

namespace api_test {
namespace {

/// An append of 32 dimensions to a cache of 2 x 8 rows of 2 heads, whose memory suits every format.
struct Wide : AppendCall {
  static constexpr int64_t dim = 32;
  float keys[b * sn * hkv * dim] = {}, values[b * sn * hkv * dim] = {};
  alignas(256) unsigned char k_codes[b * cache_rows * hkv * 64], v_codes[b * cache_rows * hkv * 64];
  float scales[4][b * cache_rows * hkv * dim];

  explicit Wide(fa_dtype dtype) {
    desc.dtype_kv = dtype;
    desc.head_dim = dim;
    for (float &x : keys) x = 1.5f;
    for (float &x : values) x = -3;
    for (auto &tensor : scales)
      for (float &x : tensor) x = 0.25f;
    std::memset(k_codes, 0xa5, sizeof k_codes);
    std::memset(v_codes, 0xa5, sizeof v_codes);
    fa_tensor_init(&call.k, keys, FA_F32, b, sn, hkv, dim);
    fa_tensor_init(&call.v, values, FA_F32, b, sn, hkv, dim);
    fa_tensor_init(&call.k_cache, k_codes, dtype, b, cache_rows, hkv, dim);
    fa_tensor_init(&call.v_cache, v_codes, dtype, b, cache_rows, hkv, dim);
  }

  /// Scales of which each dimension may be 1, in the n-th memory.
  void give(fa_tensor fa_append_args::*field, int n, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    fa_tensor_init(&(call.*field), scales[n], FA_F32, d0, d1, d2, d3);
  }
  void give_scales() {
    give(&fa_append_args::k_scale, 0, 1, 1, 1, 1);
    give(&fa_append_args::v_scale, 1, 1, 1, 1, 1);
  }
  void compute(bool zeros = false) {
    call.flags |= FA_APPEND_COMPUTE_SCALES;
    give(&fa_append_args::k_scale, 0, b, cache_rows, hkv, 1);
    give(&fa_append_args::v_scale, 1, b, cache_rows, hkv, 4);
    if (!zeros) return;
    give(&fa_append_args::k_zero, 2, b, cache_rows, hkv, 1);
    give(&fa_append_args::v_zero, 3, b, cache_rows, hkv, 4);
  }
  void type_v(fa_dtype dtype) { desc.dtype_v = call.v_cache.dtype = dtype; }
};

constexpr fa_dtype formats[] = {FA_I8, FA_E4M3, FA_E5M2, FA_I4, FA_U4, FA_Q8_0, FA_Q4_0};

// [F290] [F294]
TEST(AppendQuantised, EachFormatIsWritten) {
  for (const fa_dtype dtype : formats)
    for (const bool computed : {false, true}) {
      Wide call(dtype);
      const bool blocks = dtype == FA_Q8_0 || dtype == FA_Q4_0;
      if (computed) call.compute(dtype == FA_U4);
      if (!computed) call.give_scales();
      if (blocks) call.call.k_scale = call.call.v_scale = {};
      EXPECT_EQ(call.run(), FA_OK) << dtype << ": " << fa_last_error();
      EXPECT_NE(call.k_codes[0], 0xa5) << dtype;
      if (blocks || !computed) continue;
      EXPECT_NE(call.scales[0][0], 0.25f) << dtype;
      EXPECT_EQ(call.scales[0][2 * 3], 0.25f) << "of a row that is not written";
    }
}

struct Refused {
  fa_dtype dtype;
  void (*spoil)(Wide &);
  std::vector<std::string> words;
};

// clang-format off
const Refused refusals[] = {
    {FA_I8, [](Wide &) {}, {"args.k_scale.data is NULL", "k_cache is of FA_I8", "scale"}},                              // [F300]
    {FA_I4, [](Wide &c) { c.give_scales(); c.call.v_scale = {}; }, {"args.v_scale.data is NULL", "v_cache is of FA_I4"}},  // [F300]
    {FA_E4M3, [](Wide &c) { c.compute(); c.call.k_scale = {}; },
     {"args.k_scale.data is NULL", "FA_APPEND_COMPUTE_SCALES", "FA_E4M3"}},                                            // [F300]
    {FA_Q8_0, [](Wide &c) { c.give_scales(); }, {"args.k_scale is given", "k_cache is of FA_Q8_0", "blocks"}},           // [F301]
    {FA_Q4_0, [](Wide &c) { c.give(&fa_append_args::v_zero, 0, 1, 1, 1, 1); }, {"args.v_zero is given", "FA_Q4_0"}},     // [F301]
    {FA_I8, [](Wide &c) { c.give_scales(); c.type_v(FA_BF16); },
     {"args.v_scale is given", "v_cache is of FA_BF16", "not quantised", "desc.dtype_v"}},                             // [F301]
    {FA_I8, [](Wide &c) { c.give_scales(); c.call.k_scale.shape[1] = 3; }, {"args.k_scale.shape[1] is 3", "1 or 8", "as k_cache"}},
    {FA_I8, [](Wide &c) { c.give_scales(); c.call.v_scale.shape[3] = 5; }, {"args.v_scale.shape[3] is 5", "divisor of desc.head_dim_v"}},
    {FA_I8, [](Wide &c) { c.give_scales(); c.call.v_scale.dtype = FA_I8; },
     {"args.v_scale.dtype is 7 (FA_I8)", "FA_F32, FA_F16 or FA_BF16"}},
    {FA_I8, [](Wide &c) { c.compute(); c.give(&fa_append_args::k_scale, 0, 2, 1, 2, 1); },
     {"args.k_scale.shape[1] is 1", "expected 8", "FA_APPEND_COMPUTE_SCALES"}},                                        // [F302]
    {FA_I8, [](Wide &c) { c.compute(); c.give(&fa_append_args::v_scale, 1, 2, 8, 1, 1); },
     {"args.v_scale.shape[2] is 1", "expected 2", "FA_APPEND_COMPUTE_SCALES"}},                                        // [F302]
    {FA_I8, [](Wide &c) { c.compute(); c.give(&fa_append_args::k_scale, 0, 1, 8, 2, 1); },
     {"args.k_scale.shape[0] is 1", "expected 2", "FA_APPEND_COMPUTE_SCALES"}},                                        // [F302]
    {FA_I8, [](Wide &c) { c.compute(); c.call.k_scale.stride[1] = 0; }, {"args.k_scale.stride[1] is 0", "written"}},
    {FA_U4, [](Wide &c) { c.compute(); }, {"args.k_zero.data is NULL", "FA_U4", "FA_APPEND_COMPUTE_SCALES"}},            // [F303]
    {FA_I4, [](Wide &c) { c.compute(true); }, {"args.k_zero is given", "FA_I4", "symmetric"}},                          // [F303]
    {FA_U4, [](Wide &c) { c.compute(true); c.call.v_zero.shape[3] = 2; }, {"args.v_zero.shape[3] is 2", "expected 4", "args.v_scale"}},
    {FA_F16, [](Wide &c) { c.call.flags = FA_APPEND_COMPUTE_SCALES; },
     {"FA_APPEND_COMPUTE_SCALES", "FA_F16", "not quantised", "desc.dtype_kv"}},                                        // [F304]
    {FA_I8, [](Wide &c) { c.compute(); c.call.v_scale.data = c.scales[0]; }, {"args.k_scale overlaps args.v_scale"}},    // [F299]
    {FA_I8, [](Wide &c) { c.compute(); c.call.k_scale.data = c.k_codes; }, {"args.k_cache overlaps args.k_scale"}},      // [F299]
    {FA_I8, [](Wide &c) { c.give_scales(); c.call.k_scale.data = c.k_codes; }, {"args.k_cache overlaps args.k_scale"}},
    {FA_I4, [](Wide &c) { c.give_scales(); c.call.k_cache.stride[1] += 1; }, {"args.k_cache.stride[1] is 65", "multiple of 2"}},
    {FA_Q8_0, [](Wide &c) { c.call.v_cache.data = c.v_codes + 1; }, {"args.v_cache.data is 0x", "multiple"}},
};
// clang-format on

// [F53] [F69] [F300] [F301] [F302] [F303] [F304]
TEST(AppendQuantised, EachRefusalNamesItsArgument) {
  for (const Refused &refused : refusals) {
    Wide call(refused.dtype);
    refused.spoil(call);
    const Wide before = call;
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << testing::PrintToString(refused.words);
    EXPECT_EQ(missing_words(fa_last_error(), refused.words), "");
    EXPECT_EQ(std::memcmp(call.k_codes, before.k_codes, sizeof call.k_codes), 0) << "something was written";
    EXPECT_EQ(std::memcmp(call.scales, before.scales, sizeof call.scales), 0) << "something was written";
  }
}

/// One tensor of given scales may be that of both; computed ones may lie behind the codes of their rows.
// [F299]
TEST(AppendQuantised, MemoryThatMayBeShared) {
  Wide given(FA_I8);
  given.give_scales();
  given.call.v_scale = given.call.k_scale;
  EXPECT_EQ(given.run(), FA_OK) << fa_last_error();

  Wide within(FA_I8);
  within.call.flags = FA_APPEND_COMPUTE_SCALES;
  alignas(4) static char memory[2][Wide::b * Wide::cache_rows * Wide::hkv * 36];
  const auto lay = [&](fa_tensor *cache, fa_tensor *scale, char *at) {
    fa_tensor_init(cache, at, FA_I8, Wide::b, Wide::cache_rows, Wide::hkv, 36);
    *scale = *cache;
    cache->shape[3] = 32;
    scale->data = at + 32, scale->dtype = FA_F32, scale->shape[3] = 1;
    for (int64_t &stride : scale->stride) stride /= 4;
  };
  lay(&within.call.k_cache, &within.call.k_scale, memory[0]);
  lay(&within.call.v_cache, &within.call.v_scale, memory[1]);
  ASSERT_EQ(within.run(), FA_OK) << fa_last_error();
  float scale;
  std::memcpy(&scale, memory[0] + 32, sizeof scale);
  EXPECT_EQ(scale, 1.5f / 127);
  EXPECT_EQ(memory[0][0], 127);
  EXPECT_EQ(memory[1][31], -127);
}

/// Without tokens there are no scales to have.
// [F20]
TEST(AppendQuantised, NothingToWrite) {
  Wide call(FA_I8);
  call.call.k.shape[1] = call.call.v.shape[1] = 0;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

/// fa_forward of the same op reads the appended rows.
// [F292]
TEST(AppendQuantised, ForwardReadsIt) {
  Wide call(FA_U4);
  call.compute(true);
  for (int i = 0; i < 2 * Wide::dim; ++i) call.values[i] = float(i % 16);
  fa_op *op = call.create();
  ASSERT_EQ(fa_append(op, &call.call), FA_OK) << fa_last_error();
  float q[Wide::b * Wide::hkv * Wide::dim] = {}, out[Wide::b * Wide::hkv * Wide::dim];
  int32_t used[] = {1, 0};
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  fa_tensor_init(&args.q, q, FA_F32, Wide::b, 1, Wide::hkv, Wide::dim);
  fa_tensor_init(&args.out, out, FA_F32, Wide::b, 1, Wide::hkv, Wide::dim);
  args.k = call.call.k_cache, args.v = call.call.v_cache, args.seqused_k = used;
  args.k_scale = call.call.k_scale, args.k_zero = call.call.k_zero;
  args.v_scale = call.call.v_scale, args.v_zero = call.call.v_zero;
  ASSERT_EQ(fa_forward(op, &args), FA_OK) << fa_last_error();
  for (int i = 0; i < 2 * Wide::dim; ++i) EXPECT_NEAR(out[i], i % 16, 0.3) << i;
  fa_destroy(op);
}

}  // namespace
}  // namespace api_test

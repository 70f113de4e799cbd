// Quantised keys and values: refusals by name, and calls that are legal.
#include <cstdint>

#include "backward_call.h"

namespace api_test {
namespace {

/// A call of 32 dimensions, whose memory suits every format.
struct Wide : Call {
  alignas(256) unsigned char keys[8192] = {}, values[8192] = {};
  alignas(256) float queries[b * sq * hq * 32] = {}, outputs[b * sq * hq * 32];

  explicit Wide(fa_dtype dtype) {
    quantise(dtype);
    desc.head_dim = 32;
    fa_tensor_init(&args.q, queries, FA_F32, b, sq, hq, 32);
    fa_tensor_init(&args.k, keys, dtype, b, sk, hkv, 32);
    fa_tensor_init(&args.v, values, dtype, b, sk, hkv, 32);
    fa_tensor_init(&args.out, outputs, FA_F32, b, sq, hq, 32);
    if (dtype >= FA_Q8_0) args.k_scale.data = args.v_scale.data = nullptr;
  }
};

constexpr fa_dtype formats[] = {FA_I8, FA_E4M3, FA_E5M2, FA_I4, FA_U4, FA_Q8_0, FA_Q4_0};

// [F245]
TEST(Quantised, EachFormatIsServed) {
  for (const fa_dtype dtype : formats)
    for (const fa_dtype of_v : formats) {
      Wide call(dtype);
      call.desc.dtype_v = call.args.v.dtype = of_v;
      if (of_v < FA_Q8_0) fa_tensor_init(&call.args.v_scale, call.scales, FA_F32, 1, 1, 1, 1);
      if (of_v >= FA_Q8_0) call.args.v_scale.data = nullptr;
      EXPECT_EQ(call.run(), FA_OK) << dtype << " " << of_v << ": " << fa_last_error();
    }
}

struct Refused {
  fa_dtype dtype;
  void (*spoil)(Wide &);
  std::vector<std::string> words;
};

void give(Wide &c, fa_tensor fa_forward_args::*field, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
  fa_tensor_init(&(c.args.*field), c.scales, FA_F32, d0, d1, d2, d3);
}

// clang-format off
const Refused refusals[] = {
    {FA_I8, [](Wide &c) { c.args.k_scale.data = nullptr; }, {"args.k_scale.data is NULL", "k is of FA_I8", "scale"}},  // [F250]
    {FA_U4, [](Wide &c) { c.args.v_scale.data = nullptr; }, {"args.v_scale.data is NULL", "v is of FA_U4"}},           // [F250]
    {FA_I8, [](Wide &c) { give(c, &fa_forward_args::k_scale, 1, 3, 1, 1); }, {"args.k_scale.shape[1] is 3", "1 or 4", "as k"}},
    {FA_I8, [](Wide &c) { give(c, &fa_forward_args::v_scale, 1, 1, 4, 1); }, {"args.v_scale.shape[2] is 4", "1 or 2", "as v"}},
    {FA_I8, [](Wide &c) { give(c, &fa_forward_args::k_scale, 1, 1, 1, 3); },
     {"args.k_scale.shape[3] is 3", "divisor of desc.head_dim", "32"}},                                                // [F247] [F267]
    {FA_I8, [](Wide &c) { give(c, &fa_forward_args::k_zero, 1, 1, 1, 64); }, {"args.k_zero.shape[3] is 64", "1 .. 32"}},
    {FA_I8, [](Wide &c) { c.args.k_scale.dtype = FA_I8; }, {"args.k_scale.dtype is 7 (FA_I8)", "FA_F32, FA_F16 or FA_BF16"}},
    {FA_Q8_0, [](Wide &c) { give(c, &fa_forward_args::k_scale, 1, 1, 1, 1); }, {"args.k_scale", "FA_Q8_0", "blocks"}},  // [F253]
    {FA_Q4_0, [](Wide &c) { give(c, &fa_forward_args::v_zero, 1, 1, 1, 1); }, {"args.v_zero", "FA_Q4_0", "blocks"}},    // [F253]
    {FA_E4M3, [](Wide &c) { c.desc.dtype_v = c.args.v.dtype = FA_BF16; fa_tensor_init(&c.args.v, c.values, FA_BF16, 2, 4, 2, 32); },
     {"args.v_scale is given", "v is of FA_BF16", "not quantised", "desc.dtype_v"}},                                   // [F253]
    {FA_I4, [](Wide &c) { c.args.k.stride[1] += 1; }, {"args.k.stride[1] is 65", "multiple of 2", "FA_I4"}},            // [F254]
    {FA_Q8_0, [](Wide &c) { c.args.v.stride[2] = 16; }, {"args.v.stride[2] is 16", "multiple of 32", "FA_Q8_0"}},       // [F254]
    {FA_U4, [](Wide &c) { c.args.k.stride[3] = 2; }, {"args.k.stride[3] is 2", "expected 1", "FA_U4"}},                 // [F254]
    {FA_Q4_0, [](Wide &c) { c.args.k.data = c.keys + 1; }, {"args.k.data is 0x", "multiple", "2 bytes"}},               // [F255]
    {FA_Q8_0, [](Wide &c) { c.desc.head_dim = 48; }, {"desc.head_dim is 48", "FA_Q8_0", "multiple of 32"}},             // [F254]
    {FA_I4, [](Wide &c) { c.desc.head_dim_v = 33; }, {"desc.head_dim_v is 33", "FA_I4", "multiple of 2"}},              // [F254]
    {FA_I8, [](Wide &c) { c.desc.dtype_v = FA_BOOL; }, {"desc.dtype_v is 4 (FA_BOOL)", "FA_Q4_0", "as dtype_kv"}},
    {FA_I8, [](Wide &c) { c.desc.dtype_q = FA_I8; }, {"desc.dtype_q is 7 (FA_I8)", "FA_BF16"}},
    {FA_I8, [](Wide &c) { c.desc.dtype_out = FA_E4M3; }, {"desc.dtype_out is 8 (FA_E4M3)", "FA_BF16"}},
    {FA_I8, [](Wide &c) { c.args.out.data = c.keys; }, {"args.out overlaps args.k"}},                                   // [F197]
    {FA_I4, [](Wide &c) { c.args.out.data = c.keys; }, {"args.out overlaps args.k"}},                                   // [F197]
    {FA_I8, [](Wide &c) { c.args.out.data = c.scales; }, {"args.out overlaps args.k_scale"}},                           // [F197]
};
// clang-format on

// [F53] [F69]
TEST(Quantised, EachRefusalNamesItsArgument) {
  for (const Refused &refused : refusals) {
    Wide call(refused.dtype);
    refused.spoil(call);
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << testing::PrintToString(refused.words);
    EXPECT_EQ(missing_words(fa_last_error(), refused.words), "");
  }
}

/// Bytes of a row count, not elements: out begins where the last row of k ends.
// [F197]
TEST(Quantised, OverlapIsCountedInBytes) {
  for (const fa_dtype dtype : formats) {
    Wide call(dtype);
    const int64_t rows = Call::b * Call::sk * Call::hkv;
    const int64_t row = dtype == FA_Q8_0 ? 34 : dtype == FA_Q4_0 ? 18 : dtype == FA_I4 || dtype == FA_U4 ? 16 : 32;
    alignas(256) static unsigned char memory[1 << 16];
    call.args.out.data = memory + 4096;
    call.args.k.data = memory + 4096 - rows * row;
    EXPECT_EQ(call.run(), FA_OK) << dtype << ": " << fa_last_error();
    call.args.k.data = memory + 4096 - rows * row + 2;
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << dtype;
  }
}

/// The size does not depend on scales, and their data is not looked at.
// [F126] [F127]
TEST(Quantised, TheWorkspaceNeedsNoScales) {
  Wide call(FA_I8);
  fa_op *op = call.create();
  size_t with = 0, without = 0;
  EXPECT_EQ(fa_forward_workspace_size(op, &call.args, &with), FA_OK);
  call.args.k_scale.data = call.args.v_scale.data = nullptr;
  EXPECT_EQ(fa_forward_workspace_size(op, &call.args, &without), FA_OK);
  EXPECT_EQ(with, without);
  fa_destroy(op);
}

// [F259]
TEST(Quantised, TheBackwardPassRefusesThemByName) {
  for (const fa_dtype dtype : formats) {
    BackwardCall call;
    call.desc.head_dim = call.desc.head_dim_v = 32;
    call.desc.dtype_kv = dtype;
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(missing_words(fa_last_error(), {"desc.dtype_kv is FA_", "fa_backward", "quantised k"}), "");
    call.desc.dtype_kv = FA_F32;
    call.desc.dtype_v = dtype;
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(missing_words(fa_last_error(), {"desc.dtype_v is FA_", "fa_backward", "quantised v"}), "");
  }
  BackwardCall call;
  call.desc.dtype_v = FA_F16;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"desc.dtype_v is FA_F16", "desc.dtype_kv FA_F32", "fa_backward"}), "");
}

}  // namespace
}  // namespace api_test

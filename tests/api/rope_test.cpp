// Keys in two parts: what a call may not have, by name, and what it takes.
#include "append_call.h"
#include "backward_call.h"

namespace api_test {
namespace {

struct Divided : Call {
  Divided() { divide(); }
};

struct Refused {
  void (*spoil)(Divided &);
  std::vector<std::string> words;
};

// clang-format off
const Refused refusals[] = {
    {[](Divided &c) { c.desc.head_dim_rope = -1; }, {"desc.head_dim_rope is -1", "0 .. 7"}},
    {[](Divided &c) { c.desc.head_dim_rope = 8; }, {"desc.head_dim_rope is 8", "0 .. 7", "fewer than desc.head_dim"}},
    {[](Divided &c) { c.desc.dtype_k_rope = FA_E4M3; }, {"desc.dtype_k_rope is 8 (FA_E4M3)", "FA_BF16", "as dtype_q"}},
    {[](Divided &c) { c.desc.head_dim_rope = 0; }, {"args.k_rope is given", "desc.head_dim_rope is 0"}},                       // [F287]
    {[](Divided &c) { c.args.k_rope.data = nullptr; }, {"args.k_rope.data is NULL", "desc.head_dim_rope is 4"}},               // [F287]
    {[](Divided &c) { c.args.k.shape[3] = 8; }, {"args.k.shape[3] is 8", "expected 4", "desc.head_dim less desc.head_dim_rope"}},  // [F283]
    {[](Divided &c) { c.args.k_rope.shape[3] = 5; }, {"args.k_rope.shape[3] is 5", "expected 4", "desc.head_dim_rope"}},       // [F287]
    {[](Divided &c) { c.args.k_rope.shape[1] = 3; }, {"args.k_rope.shape[1] is 3", "expected 4", "as k"}},                     // [F285]
    {[](Divided &c) { c.args.k_rope.dtype = FA_F16; }, {"args.k_rope.dtype is 2 (FA_F16)", "FA_F32", "desc.dtype_k_rope"}},    // [F283]
    {[](Divided &c) { c.quantise(FA_I8); fa_tensor_init(&c.args.k_scale, c.scales, FA_F32, 1, 1, 1, 8); },
     {"args.k_scale.shape[3] is 8", "1 .. 4", "row of k"}},                                                                    // [F284]
    {[](Divided &c) { c.quantise(FA_I8); fa_tensor_init(&c.args.k_scale, c.scales, FA_F32, 1, 1, 1, 3); },
     {"args.k_scale.shape[3] is 3", "desc.head_dim less desc.head_dim_rope", "which is 4"}},                                   // [F284]
    {[](Divided &c) { c.quantise(FA_Q8_0); }, {"desc.head_dim less desc.head_dim_rope is 4", "FA_Q8_0", "multiple of 32"}},
};
// clang-format on

// [F283] [F284] [F285] [F287]
TEST(Rope, RefusedByName) {
  for (const Refused &r : refusals) {
    Divided call;
    r.spoil(call);
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << testing::PrintToString(r.words);
    EXPECT_EQ(missing_words(fa_last_error(), r.words), "");
  }
}

TEST(Rope, EachTypeIsServed) {
  for (const fa_dtype dtype : {FA_DTYPE_DEFAULT, FA_F32, FA_F16, FA_BF16}) {
    Divided call;
    call.desc.dtype_k_rope = call.args.k_rope.dtype = dtype;
    EXPECT_EQ(call.run(), FA_OK) << dtype << ": " << fa_last_error();
  }
}

/// Without keys there is no second part of them, either.
TEST(Rope, WithoutKeysNothingIsMissing) {
  Divided call;
  call.args.k_rope.data = call.args.k.data = call.args.v.data = nullptr;
  call.args.k.shape[1] = call.args.v.shape[1] = 0;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

// [F286]
TEST(Rope, TheBackwardPassRefusesItByName) {
  BackwardCall call;
  call.desc.head_dim_rope = 4;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"desc.head_dim_rope is 4", "fa_backward", "expected 0"}), "");
}

struct DividedAppend : AppendCall {
  float rope[b * sn * hkv * 4] = {}, rope_cache[b * cache_rows * hkv * 4] = {};

  DividedAppend() {
    desc.head_dim_rope = 4;
    call.k.shape[3] = call.k_cache.shape[3] = d - 4;
    fa_tensor_init(&call.k_rope, rope, FA_F32, b, sn, hkv, 4);
    fa_tensor_init(&call.k_rope_cache, rope_cache, FA_F32, b, cache_rows, hkv, 4);
  }
};

struct RefusedAppend {
  void (*spoil)(DividedAppend &);
  std::vector<std::string> words;
};

// clang-format off
const RefusedAppend refused_appends[] = {
    {[](DividedAppend &c) { c.call.k_rope.data = nullptr; }, {"args.k_rope.data is NULL", "desc.head_dim_rope is 4"}},          // [F288]
    {[](DividedAppend &c) { c.call.k_rope_cache.data = nullptr; }, {"args.k_rope_cache.data is NULL", "both"}},                 // [F288]
    {[](DividedAppend &c) { c.desc.head_dim_rope = 0; }, {"args.k_rope is given", "desc.head_dim_rope is 0"}},                  // [F288]
    {[](DividedAppend &c) { c.call.k_rope.shape[1] += 1; }, {"args.k_rope.shape[1]", "as k"}},
    {[](DividedAppend &c) { c.call.k_rope_cache.shape[1] += 1; }, {"args.k_rope_cache.shape[1]", "as k_cache"}},
    {[](DividedAppend &c) { c.call.k_rope_cache.dtype = FA_BF16; }, {"args.k_rope_cache.dtype is 3 (FA_BF16)", "desc.dtype_k_rope"}},
};
// clang-format on

TEST(Rope, AppendsAreRefusedByName) {
  for (const RefusedAppend &r : refused_appends) {
    DividedAppend call;
    r.spoil(call);
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << testing::PrintToString(r.words);
    EXPECT_EQ(missing_words(fa_last_error(), r.words), "");
  }
}

// [F289]
TEST(Rope, PairsAreOfOnePart) {
  for (const bool tail : {false, true})
    for (const int64_t pairs : {1, 2, 3}) {
      DividedAppend call;
      static float table[AppendCall::table_rows * 3] = {};
      fa_tensor_init(&call.call.rotary_cos, table, FA_F32, 1, AppendCall::table_rows, 1, pairs);
      fa_tensor_init(&call.call.rotary_sin, table, FA_F32, 1, AppendCall::table_rows, 1, pairs);
      call.call.flags = tail ? FA_APPEND_ROTARY_TAIL : 0;
      EXPECT_EQ(call.run(), pairs < 3 ? FA_OK : FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
      if (pairs < 3) continue;
      const std::vector<std::string> words = {"args.rotary_cos.shape[3] is 3", "6 elements",
                                              tail ? "k_rope has 4" : "k has 4"};
      EXPECT_EQ(missing_words(fa_last_error(), words), "");
    }
}

}  // namespace
}  // namespace api_test

// Rotated keys and values: refusals by name, and calls that are legal.
#include "append_call.h"
#include "backward_call.h"

namespace api_test {
namespace {

constexpr uint32_t rotates_both = FA_FLAG_HADAMARD_K | FA_FLAG_HADAMARD_V;

/// Values that are a part of the keys.
struct Shared : Call {
  explicit Shared(uint32_t flags, int64_t begin = 0, int64_t dim = d) {
    desc.flags = flags;
    desc.head_dim_v = args.v.shape[3] = args.out.shape[3] = dim;
    args.v.data = k + begin;
    for (int i = 0; i < 4; ++i) args.v.stride[i] = args.k.stride[i];
  }
};

// [F313]
TEST(Rotated, ValuesWithinKeysAreRotatedAsThese) {
  EXPECT_EQ(Shared(0).run(), FA_OK) << fa_last_error();
  EXPECT_EQ(Shared(0, 3, 5).run(), FA_OK) << fa_last_error();
  EXPECT_EQ(Shared(rotates_both).run(), FA_OK) << fa_last_error();
  struct Refused {
    uint32_t flags;
    int64_t begin, dim;
    std::vector<std::string> words;
  };
  const Refused refusals[] = {
      {FA_FLAG_HADAMARD_K, 0, 8, {"args.v is elements 0 .. 7 of args.k", "8 elements of k", "1 elements of v"}},
      {FA_FLAG_HADAMARD_V, 0, 8, {"args.v is elements 0 .. 7 of args.k", "1 elements of k", "8 elements of v"}},
      {rotates_both, 0, 4, {"args.v is elements 0 .. 3 of args.k", "FA_FLAG_HADAMARD_V", "desc.head_dim_v"}},
      {rotates_both, 4, 4, {"args.v is elements 4 .. 7 of args.k", "8 elements of k", "4 elements of v"}},
  };
  for (const Refused &r : refusals) {
    EXPECT_EQ(Shared(r.flags, r.begin, r.dim).run(), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(missing_words(fa_last_error(), r.words), "");
  }
}

/// Two codes a byte, and blocks.
// [F313]
TEST(Rotated, ValuesWithinPackedKeys) {
  for (const fa_dtype type : {FA_I4, FA_Q8_0})
    for (const int64_t begin : {0, 32}) {
      alignas(64) static char cache[Call::b * Call::sk * Call::hkv * 96 * 2];
      static float wide[Call::b * Call::sq * Call::hq * 96], scales[Call::hkv] = {1, 1};
      Call c;
      c.desc.dtype_kv = type, c.desc.head_dim = 96, c.desc.head_dim_v = 32, c.desc.flags = FA_FLAG_HADAMARD_K;
      fa_tensor_init(&c.args.q, wide, FA_F32, Call::b, Call::sq, Call::hq, 96);
      fa_tensor_init(&c.args.k, cache, type, Call::b, Call::sk, Call::hkv, 96);
      c.args.v = c.args.k;
      c.args.v.shape[3] = 32;
      c.args.v.data = cache + begin * (type == FA_I4 ? 16 : 34) / 32;
      fa_tensor_init(&c.args.out, c.out, FA_F32, Call::b, Call::sq, Call::hq, 32);
      static float out[Call::b * Call::sq * Call::hq * 32];
      c.args.out.data = out;
      if (type == FA_I4) {
        fa_tensor_init(&c.args.k_scale, scales, FA_F32, 1, 1, Call::hkv, 1);
        fa_tensor_init(&c.args.v_scale, scales, FA_F32, 1, 1, Call::hkv, 1);
      }
      EXPECT_EQ(c.run(), FA_ERROR_INVALID_ARGUMENT);
      const std::string elements = begin == 0 ? "elements 0 .. 31 of args.k" : "elements 32 .. 63 of args.k";
      EXPECT_EQ(missing_words(fa_last_error(), {elements, "32 elements of k", "1 elements of v"}), "");
      c.desc.flags = rotates_both;
      EXPECT_EQ(c.run(), FA_OK) << fa_last_error();
    }
}

/// Rows of keys and values next to each other are no values within keys.
// [F313]
TEST(Rotated, NeighboursAreIndependent) {
  static float rows[Call::b * Call::sk * Call::hkv * 2 * Call::d];
  Call c;
  c.desc.flags = FA_FLAG_HADAMARD_K;
  fa_tensor_init(&c.args.k, rows, FA_F32, Call::b, Call::sk, Call::hkv, 2 * Call::d);
  c.args.k.shape[3] = Call::d;
  c.args.v = c.args.k;
  c.args.v.data = rows + Call::d;
  EXPECT_EQ(c.run(), FA_OK) << fa_last_error();
}

// [F314]
TEST(Rotated, KeysThatHoldTheValues) {
  AppendCall call;
  call.call.v.data = call.call.v_cache.data = nullptr;
  for (const uint32_t flags : {uint32_t{0}, uint32_t{FA_FLAG_HADAMARD_K}, rotates_both}) {
    call.desc.flags = flags;
    EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  }
  call.desc.flags = FA_FLAG_HADAMARD_V;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.v is absent", "1 elements of k", "8 elements of v", "FA_FLAG_HADAMARD_K"}),
            "");
  call.desc.flags = rotates_both;
  call.desc.head_dim_v = 4;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"8 elements of k", "4 elements of v", "desc.head_dim_v"}), "");
}

// [F315]
TEST(Rotated, TheBackwardPassRefusesBothFlags) {
  for (const uint32_t flag : {FA_FLAG_HADAMARD_K, FA_FLAG_HADAMARD_V}) {
    BackwardCall call;
    call.desc.flags = flag;
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
    const char *name = flag == FA_FLAG_HADAMARD_K ? "FA_FLAG_HADAMARD_K" : "FA_FLAG_HADAMARD_V";
    EXPECT_EQ(missing_words(fa_last_error(), {name, "fa_backward", "expected neither flag"}), "");
  }
}

}  // namespace
}  // namespace api_test

// Legal.* and Strides.*: bounds above the actual lengths, and strides that reach too far in one direction.
#include "call.h"

namespace api_test {
namespace {

/// "no sequence has more" is true of any larger number.
// [F107]
TEST(Legal, BoundsAboveTheRows) {
  Call plain, more;
  ASSERT_EQ(plain.run(), FA_OK) << fa_last_error();
  more.args.max_seqlen_q = Call::sq + 5;
  more.args.max_seqlen_k = 1 << 20;
  EXPECT_EQ(more.run(), FA_OK) << fa_last_error();
  EXPECT_EQ(std::memcmp(plain.out, more.out, sizeof plain.out), 0);
  Call packed;
  packed.pack_q();
  packed.pack_k();
  packed.args.max_seqlen_q = packed.args.max_seqlen_k = 1000;
  EXPECT_EQ(packed.run(), FA_OK) << fa_last_error();
}

/// They ask for no more memory than the rows there are.
TEST(Legal, BoundsAboveTheRowsTakeNoMemory) {
  Call call;
  call.args.num_splits = 2;
  fa_op *op = call.create();
  size_t plain = 0, more = 0;
  ASSERT_EQ(fa_forward_workspace_size(op, &call.args, &plain), FA_OK) << fa_last_error();
  call.args.max_seqlen_q = call.args.max_seqlen_k = 1 << 20;
  ASSERT_EQ(fa_forward_workspace_size(op, &call.args, &more), FA_OK) << fa_last_error();
  EXPECT_EQ(plain, more);
  fa_destroy(op);
}

/// Steps downwards do not make up for those upwards: the elements between are beyond 2^63 bytes all the same.
TEST(Strides, UpAndDownAreCountedApart) {
  for (const int64_t sign : {1, -1}) {
    Call call;
    constexpr int64_t far = int64_t{3} << 59;  // of f32: 1.5 * 2^62 bytes
    fa_tensor_init(&call.args.q, call.q, FA_F32, 2, 2, 2, Call::d);
    call.args.q.stride[0] = call.args.q.stride[2] = sign * far;
    call.args.q.stride[1] = -sign * far;
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(missing_words(fa_last_error(), {"args.q.stride[2]", "within 2^63 bytes"}), "");
  }
}

}  // namespace
}  // namespace api_test

// fa_backward's arguments: every refusal that fa.h documents, overlaps, structures of other sizes, and unusual but
// legal calls.
#include <algorithm>
#include <cstddef>

#include "backward_call.h"
#include "refusal.h"

namespace api_test {
namespace {

using Refusal = RefusalOf<BackwardCall>;

class BackwardArgs : public testing::TestWithParam<Refusal> {};

// [F53] [F56] [F191]
TEST_P(BackwardArgs, AreRefused) {
  BackwardCall call;
  GetParam().change(call);
  fa_op *op = call.create();
  ASSERT_NE(op, nullptr);
  const BackwardCall before = call;
  EXPECT_EQ(fa_backward(op, &call.call), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_TRUE(call.same_gradients(before)) << "a gradient was written";
  size_t bytes = 12345;
  EXPECT_EQ(fa_backward_workspace_size(op, &call.call, &bytes), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_EQ(bytes, 12345u);
  fa_destroy(op);
}

// clang-format off
const Refusal refusals[] = {
    {"block_table", [](BackwardCall &c) { fa_tensor_init(&c.call.block_table, c.table, FA_I32, 2, 2, 1, 1); },
     {"args.block_table", "pages", "cu_seqlens_k", "seqused_k"}},  // [F180]
    {"dbias_without_bias", [](BackwardCall &c) { c.add_dbias(); c.call.bias = {}; }, {"args.dbias without args.bias", "zeros"}},  // [F181]
    {"dsinks_without_sinks", [](BackwardCall &c) { c.add_dsinks(); c.call.sinks = {}; }, {"args.dsinks without args.sinks"}},  // [F182]
    {"kv_batch_idx_packed", [](BackwardCall &c) { c.call.kv_batch_idx = c.batch_idx; c.pack_k(); },
     {"args.kv_batch_idx", "args.cu_seqlens_k"}},
    {"accumulate_unknown", [](BackwardCall &c) { c.call.accumulate = 0x41; }, {"args.accumulate is 0x41", "0x40", "FA_ACCUMULATE_*"}},
    {"accumulate_dq_bf16", [](BackwardCall &c) { c.call.accumulate = FA_ACCUMULATE_DQ; c.call.dq.dtype = FA_BF16; },
     {"FA_ACCUMULATE_DQ", "args.dq is of FA_BF16", "expected FA_F32"}},  // [F179]
    {"accumulate_dk_f16", [](BackwardCall &c) { c.call.accumulate = FA_ACCUMULATE_DK; c.call.dk.dtype = FA_F16; },
     {"FA_ACCUMULATE_DK", "args.dk is of FA_F16"}},  // [F179]
    {"accumulate_dv_f16", [](BackwardCall &c) { c.call.accumulate = 31; c.call.dv.dtype = FA_F16; }, {"FA_ACCUMULATE_DV", "args.dv"}},
    {"accumulate_dbias_bf16",
     [](BackwardCall &c) { c.add_dbias(); c.call.accumulate = FA_ACCUMULATE_DBIAS; c.call.bias.dtype = FA_BF16; },
     {"FA_ACCUMULATE_DBIAS", "args.dbias is of FA_BF16"}},  // [F179]
    {"dq_shape", [](BackwardCall &c) { c.call.dq.shape[1] = 2; }, {"args.dq.shape[1] is 2", "expected 3 (as q)"}},
    {"dq_dim", [](BackwardCall &c) { c.call.dq.shape[3] = 4; }, {"args.dq.shape[3] is 4", "desc.head_dim"}},
    {"dk_heads", [](BackwardCall &c) { c.call.dk.shape[2] = 4; }, {"args.dk.shape[2] is 4", "expected 2 (as k)"}},
    {"dv_rows", [](BackwardCall &c) { c.call.dv.shape[1] = 5; }, {"args.dv.shape[1] is 5", "expected 4 (as v)"}},
    {"dv_dim", [](BackwardCall &c) { c.call.dv.shape[3] = 7; }, {"args.dv.shape[3] is 7", "desc.head_dim_v"}},
    {"dout_heads", [](BackwardCall &c) { c.call.dout.shape[2] = 2; }, {"args.dout.shape[2] is 2", "expected 4 (as q)"}},
    {"lse_rows", [](BackwardCall &c) { c.call.lse.shape[2] = 4; }, {"args.lse.shape[2] is 4", "queries, as q"}},
    {"dlse_shape", [](BackwardCall &c) { c.add_dlse(); c.call.dlse.shape[1] = 1; }, {"args.dlse.shape[1] is 1", "heads of q"}},
    {"delta_type", [](BackwardCall &c) { c.add_delta(); c.call.delta.dtype = FA_F16; }, {"args.delta.dtype is 2 (FA_F16)", "FA_F32"}},
    {"dbias_shape", [](BackwardCall &c) { c.add_dbias(); c.call.dbias.shape[1] = 2; }, {"args.dbias.shape[1] is 2", "1 or 4"}},
    {"dbias_type", [](BackwardCall &c) { c.add_dbias(); c.call.dbias.dtype = FA_F16; },
     {"args.dbias.dtype is 2 (FA_F16)", "FA_F32", "args.bias"}},
    {"dsinks_batch", [](BackwardCall &c) { c.add_dsinks(); c.call.dsinks.shape[0] = 3; }, {"args.dsinks.shape[0] is 3", "1 or 2"}},
    {"dsinks_type", [](BackwardCall &c) { c.add_dsinks(); c.call.dsinks.dtype = FA_BF16; }, {"args.dsinks.dtype is 3", "FA_F32"}},
    {"dq_type", [](BackwardCall &c) { c.call.dq.dtype = FA_I32; }, {"args.dq.dtype is 5 (FA_I32)", "FA_F32, FA_F16 or FA_BF16"}},
    {"dout_type", [](BackwardCall &c) { c.call.dout.dtype = FA_BOOL; }, {"args.dout.dtype is 4 (FA_BOOL)", "FA_BF16"}},
    {"out_type", [](BackwardCall &c) { c.call.out.dtype = FA_F16; }, {"args.out.dtype is 2 (FA_F16)", "desc.dtype_out"}},
    {"dq_repeats", [](BackwardCall &c) { c.call.dq.stride[1] = 0; }, {"args.dq.stride[1] is 0", "repeats"}},
    {"dk_in_one_place", [](BackwardCall &c) { c.call.dk.stride[0] = c.call.dk.stride[1]; }, {"args.dk.stride", "same address"}},
    {"num_seqs", [](BackwardCall &c) { c.call.num_seqs = -1; }, {"args.num_seqs is -1"}},
    {"max_seqlen_q", [](BackwardCall &c) { c.call.max_seqlen_q = 1; }, {"args.max_seqlen_q is 1", "3 rows"}},
    {"reserved", [](BackwardCall &c) { c.call.reserved = 1; }, {"args.reserved is 1"}},
    {"reserved_of_dv", [](BackwardCall &c) { c.call.dv.reserved = 1; }, {"args.dv.reserved is 1"}},
    {"unaligned_array", [](BackwardCall &c) { c.call.seqused_k = reinterpret_cast<int32_t *>(reinterpret_cast<char *>(c.used_k) + 1); },
     {"args.seqused_k", "multiple"}},
    {"struct_size", [](BackwardCall &c) { c.call.struct_size = 8; }, {"fa_backward_args.struct_size is 8", "fa_backward_args_init"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Errors, BackwardArgs, testing::ValuesIn(refusals), name_of<BackwardCall>);

/// Refusals of fa_backward alone: data, arrays' contents, workspaces.
class BackwardRuns : public testing::TestWithParam<Refusal> {};

// [F53] [F56]
TEST_P(BackwardRuns, AreRefused) {
  BackwardCall call;
  GetParam().change(call);
  const BackwardCall before = call;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_TRUE(call.same_gradients(before)) << "a gradient was written";
}

// clang-format off
const Refusal run_refusals[] = {
    {"neither_out_nor_delta", [](BackwardCall &c) { c.call.out.data = nullptr; }, {"args.out.data is NULL", "args.delta"}},  // [F183]
    {"q_data", [](BackwardCall &c) { c.call.q.data = nullptr; }, {"args.q.data is NULL"}},
    {"lse_data", [](BackwardCall &c) { c.call.lse.data = nullptr; }, {"args.lse.data is NULL"}},
    {"dout_data", [](BackwardCall &c) { c.call.dout.data = nullptr; }, {"args.dout.data is NULL"}},
    {"workspace_unaligned", [](BackwardCall &c) { c.call.workspace = c.workspace + 8; c.call.workspace_size = 64; }, {"args.workspace", "256"}},
    {"workspace_null", [](BackwardCall &c) { c.call.workspace_size = 64; }, {"args.workspace is NULL", "64"}},
    {"cu_seqlens_q", [](BackwardCall &c) { c.pack_q(); c.cu_q[1] = 9; }, {"args.cu_seqlens_q falls from 9"}},
    {"seqused_k", [](BackwardCall &c) { c.call.seqused_k = c.used_k; c.used_k[1] = 5; }, {"args.seqused_k[1] is 5", "0 .. 4"}},
    {"kv_batch_idx", [](BackwardCall &c) { c.call.kv_batch_idx = c.batch_idx; c.batch_idx[0] = 2; }, {"args.kv_batch_idx[0] is 2", "0 .. 1"}},
    {"dq_over_q", [](BackwardCall &c) { c.call.dq.data = c.q; }, {"args.dq overlaps args.q"}},  // [F177]
    {"dq_over_dout", [](BackwardCall &c) { c.call.dq.data = c.dout + 4; }, {"args.dq overlaps args.dout"}},
    {"dk_over_dv", [](BackwardCall &c) { c.call.dv.data = c.dk + 1; }, {"args.dk overlaps args.dv"}},  // [F177]
    {"dv_over_lse", [](BackwardCall &c) { c.call.dv.data = c.lse - 8; }, {"args.dv overlaps"}},
    {"dbias_over_bias", [](BackwardCall &c) { c.add_dbias(); c.call.dbias.data = c.bias; }, {"args.dbias overlaps args.bias"}},
    {"dsinks_over_dq", [](BackwardCall &c) { c.add_dsinks(); c.call.dsinks.data = c.dq; }, {"args.dq overlaps args.dsinks"}},
    {"workspace_over_dk", [](BackwardCall &c) { c.call.dk.data = c.workspace; c.call.workspace = c.workspace; c.call.workspace_size = sizeof c.workspace; },
     {"args.workspace overlaps args.dk"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Errors, BackwardRuns, testing::ValuesIn(run_refusals), name_of<BackwardCall>);

TEST(Backward, NullArgumentsAreRefused) {
  BackwardCall call;
  fa_op *op = call.create();
  size_t bytes = 0;
  EXPECT_EQ(fa_backward(nullptr, &call.call), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"op is NULL"}), "");
  EXPECT_EQ(fa_backward(op, nullptr), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args is NULL", "fa_backward_args_init"}), "");
  EXPECT_EQ(fa_backward_workspace_size(op, &call.call, nullptr), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"bytes is NULL"}), "");
  EXPECT_EQ(fa_backward_workspace_size(nullptr, &call.call, &bytes), FA_ERROR_INVALID_ARGUMENT);
  fa_destroy(op);
}

TEST(Backward, OfTheCallAsItIs) {
  BackwardCall call;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  call.add_dbias();
  call.add_dsinks();
  call.add_dlse();
  call.call.accumulate = 31;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

/// Nothing to write, nothing to read, and yet legal.
// [F175]
TEST(Backward, WithoutGradientsDoesNothing) {
  BackwardCall call;
  for (fa_tensor *t : {&call.call.dq, &call.call.dk, &call.call.dv}) t->data = nullptr;
  call.call.accumulate = FA_ACCUMULATE_DQ;  // of one that is absent
  const BackwardCall before = call;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  EXPECT_TRUE(call.same_gradients(before));
}

/// Keys without queries have gradients of 0.
// [F171]
TEST(Backward, WithoutQueriesZeroesTheKeys) {
  BackwardCall call;
  for (fa_tensor *t : {&call.call.q, &call.call.out, &call.call.dout, &call.call.dq})
    t->shape[1] = 0, t->data = nullptr;
  call.call.lse.shape[2] = 0, call.call.lse.data = nullptr;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  EXPECT_TRUE(std::all_of(std::begin(call.dk), std::end(call.dk), [](float x) { return x == 0; }));
  EXPECT_TRUE(std::all_of(std::begin(call.dv), std::end(call.dv), [](float x) { return x == 0; }));
}

/// out is not looked at where delta is given.
// [F161]
TEST(Backward, DeltaInPlaceOfOut) {
  BackwardCall with_out, with_delta;
  for (BackwardCall *call : {&with_out, &with_delta}) {
    for (size_t n = 0; n < std::size(call->dout); ++n) call->dout[n] = float(n % 7), call->out[n] = float(n % 3);
    for (size_t n = 0; n < std::size(call->v); ++n) call->v[n] = float(n % 5), call->k[n] = float(n % 2);
    for (size_t n = 0; n < std::size(call->q); ++n) call->q[n] = float(n % 3);
  }
  with_delta.add_delta();
  for (int64_t b = 0; b < Call::b; ++b)
    for (int64_t i = 0; i < Call::sq; ++i)
      for (int64_t h = 0; h < Call::hq; ++h)
        for (int64_t d = 0; d < Call::d; ++d) {
          const size_t n = size_t(((b * Call::sq + i) * Call::hq + h) * Call::d + d);
          with_delta.delta[(b * Call::hq + h) * Call::sq + i] += with_out.dout[n] * with_out.out[n];
        }
  with_delta.call.out.data = nullptr;
  EXPECT_EQ(with_out.run(), FA_OK) << fa_last_error();
  EXPECT_EQ(with_delta.run(), FA_OK) << fa_last_error();
  EXPECT_TRUE(with_out.same_gradients(with_delta));
}

// [F187]
TEST(Backward, InitialiserWritesNothingBeyondTheStructure) {
  alignas(8) char bytes[sizeof(fa_backward_args) + 128];
  for (size_t size = 0; size <= sizeof(fa_backward_args) + 64; ++size) {
    std::memset(bytes, 0x5a, sizeof bytes);
    fa_backward_args_init(reinterpret_cast<fa_backward_args *>(bytes), size);
    for (size_t i = size; i < sizeof bytes; ++i) ASSERT_EQ(bytes[i], 0x5a) << size;
    if (size < sizeof(size_t)) continue;
    ASSERT_EQ(reinterpret_cast<fa_backward_args *>(bytes)->struct_size, size);
    for (size_t i = sizeof(size_t); i < size; ++i) ASSERT_EQ(bytes[i], 0) << size;
  }
  fa_backward_args_init(nullptr, sizeof(fa_backward_args));
}

// [F64] [F65]
TEST(Backward, StructuresOfOtherReleasesRun) {
  BackwardCall call;
  fa_op *op = call.create();
  fa_backward_args shorter;
  std::memset(static_cast<void *>(&shorter), 0x5a, sizeof shorter);
  constexpr size_t size = offsetof(fa_backward_args, dlse);
  std::memcpy(static_cast<void *>(&shorter), &call.call, size);
  shorter.struct_size = size;
  EXPECT_EQ(fa_backward(op, &shorter), FA_OK) << fa_last_error();

  struct Longer {
    fa_backward_args known;
    int64_t unknown;
  } longer = {call.call, 0};
  longer.known.struct_size = sizeof longer;
  EXPECT_EQ(fa_backward(op, &longer.known), FA_OK) << fa_last_error();
  longer.unknown = 1;
  EXPECT_EQ(fa_backward(op, &longer.known), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"fa_backward_args.struct_size", "newer libfa"}), "");
  fa_destroy(op);
}

}  // namespace
}  // namespace api_test

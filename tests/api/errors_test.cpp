// Every refusal that fa.h documents: a valid call, one field changed, and the words that the text must hold.
#include <cmath>
#include <limits>

#include "call.h"
#include "refusal.h"

namespace api_test {
namespace {

using Refusal = RefusalOf<Call>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int64_t largest = INT64_MAX;

void *behind(void *pointer) {
  return static_cast<char *>(pointer) + 1;
}
const int32_t *behind(int32_t *pointer) {
  return reinterpret_cast<int32_t *>(reinterpret_cast<char *>(pointer) + 1);
}

// ---- fa_desc

class Desc : public testing::TestWithParam<Refusal> {};

// [F53] [F69] [F118] [F119]
TEST_P(Desc, IsRefused) {
  Call call;
  GetParam().change(call);
  fa_op *op = reinterpret_cast<fa_op *>(&call);
  ASSERT_EQ(fa_create(&call.desc, &op), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(op, nullptr);
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
}

// clang-format off
const Refusal desc_refusals[] = {
    {"device_below", [](Call &c) { c.desc.device = -1; }, {"desc.device is -1", "0 .. 2", "FA_DEVICE_CPU"}},
    {"device_above", [](Call &c) { c.desc.device = 3; }, {"desc.device is 3", "0 .. 2", "FA_DEVICE_CUDA"}},
    {"device_index", [](Call &c) { c.desc.device_index = -2; }, {"desc.device_index is -2", "GPU"}},
    {"dtype_q_default", [](Call &c) { c.desc.dtype_q = 0; }, {"desc.dtype_q is 0", "FA_F32, FA_F16 or FA_BF16"}},  // [F87]
    {"dtype_q_bool", [](Call &c) { c.desc.dtype_q = FA_BOOL; }, {"desc.dtype_q is 4 (FA_BOOL)", "FA_BF16"}},  // [F87]
    {"dtype_q_unknown", [](Call &c) { c.desc.dtype_q = 77; }, {"desc.dtype_q is 77", "not an fa_dtype", "FA_BF16"}},
    {"dtype_q_negative", [](Call &c) { c.desc.dtype_q = INT32_MIN; }, {"desc.dtype_q is -2147483648", "FA_F32"}},
    {"dtype_kv", [](Call &c) { c.desc.dtype_kv = FA_I32; }, {"desc.dtype_kv is 5 (FA_I32)", "as dtype_q"}},
    {"dtype_out", [](Call &c) { c.desc.dtype_out = 6; }, {"desc.dtype_out is 6", "FA_F16", "as dtype_q"}},
    {"mask_below", [](Call &c) { c.desc.mask = -1; }, {"desc.mask is -1", "FA_MASK_CAUSAL"}},
    {"mask_above", [](Call &c) { c.desc.mask = 3; }, {"desc.mask is 3", "FA_MASK_CAUSAL_TOP_LEFT"}},
    {"head_dim_zero", [](Call &c) { c.desc.head_dim = 0; }, {"desc.head_dim is 0", "1 .. 576"}},
    {"head_dim_above", [](Call &c) { c.desc.head_dim = 577; }, {"desc.head_dim is 577", "1 .. 576"}},  // [F80]
    {"head_dim_wraps", [](Call &c) { c.desc.head_dim = (1LL << 32) + 8; }, {"desc.head_dim is 4294967304"}},
    {"head_dim_v_below", [](Call &c) { c.desc.head_dim_v = -1; }, {"desc.head_dim_v is -1", "as head_dim"}},
    {"head_dim_v_above", [](Call &c) { c.desc.head_dim_v = 577; }, {"desc.head_dim_v is 577", "0 .. 576"}},  // [F89]
    {"attention_chunk", [](Call &c) { c.desc.attention_chunk = -4; }, {"desc.attention_chunk is -4", "0 means no"}},
    {"softmax_scale_nan", [](Call &c) { c.desc.softmax_scale = nan; }, {"desc.softmax_scale", "nan", "finite"}},  // [F91]
    {"softmax_scale_inf", [](Call &c) { c.desc.softmax_scale = infinity; }, {"desc.softmax_scale", "inf", "finite"}},
    {"softcap_negative", [](Call &c) { c.desc.softcap = -1; }, {"desc.softcap is -1", "positive"}},
    {"softcap_nan", [](Call &c) { c.desc.softcap = nan; }, {"desc.softcap", "nan", "finite"}},
    {"softcap_inf", [](Call &c) { c.desc.softcap = infinity; }, {"desc.softcap is inf", "finite"}},
    {"flags_unknown", [](Call &c) { c.desc.flags = 0x80000001u; }, {"desc.flags is 0x80000001", "0x80000000", "0x3f"}},
    {"flags_contradict",
     [](Call &c) { c.desc.flags = FA_FLAG_BATCH_INVARIANT | FA_FLAG_NONDETERMINISTIC; },
     {"FA_FLAG_BATCH_INVARIANT", "FA_FLAG_NONDETERMINISTIC", "choose one"}},  // [F49]
    {"bias_before_softcap",
     [](Call &c) { c.desc.flags = FA_FLAG_BIAS_BEFORE_SOFTCAP; },
     {"FA_FLAG_BIAS_BEFORE_SOFTCAP", "desc.softcap is 0"}},  // [F50]
    {"device_pointers_of_auto",
     [](Call &c) { c.desc.flags = FA_FLAG_DEVICE_POINTERS; },
     {"desc.flags holds FA_FLAG_DEVICE_POINTERS", "desc.device is FA_DEVICE_AUTO", "FA_DEVICE_CUDA or drop the flag"}},  // [F316]
    {"device_pointers_of_the_cpu",
     [](Call &c) { c.desc.device = FA_DEVICE_CPU; c.desc.flags = FA_FLAG_DEVICE_POINTERS; },
     {"desc.flags holds FA_FLAG_DEVICE_POINTERS", "desc.device is FA_DEVICE_CPU", "FA_DEVICE_CUDA or drop the flag"}},  // [F316]
    {"num_threads_below", [](Call &c) { c.desc.num_threads = -1; }, {"desc.num_threads is -1", "0 .. 1024"}},
    {"num_threads_above", [](Call &c) { c.desc.num_threads = 1025; }, {"desc.num_threads is 1025", "0 .. 1024"}},
    {"struct_size_zero", [](Call &c) { c.desc.struct_size = 0; }, {"fa_desc.struct_size is 0", "fa_desc_init"}},
    {"struct_size_short", [](Call &c) { c.desc.struct_size = 32; }, {"fa_desc.struct_size is 32", "at least 40"}},
    {"struct_size_odd", [](Call &c) { c.desc.struct_size = 101; }, {"fa_desc.struct_size is 101", "120"}},
    {"struct_size_garbage", [](Call &c) { c.desc.struct_size = SIZE_MAX; }, {"fa_desc.struct_size", "fa_desc_init"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Errors, Desc, testing::ValuesIn(desc_refusals), name_of<Call>);

// ---- fa_forward_args: refusals of both fa_forward and fa_forward_workspace_size

class Args : public testing::TestWithParam<Refusal> {};

// [F53] [F56] [F69] [F159]
TEST_P(Args, AreRefused) {
  Call call;
  GetParam().change(call);
  fa_op *op = call.create();
  ASSERT_NE(op, nullptr);
  const std::vector<float> before(std::begin(call.out), std::end(call.out));
  EXPECT_EQ(fa_forward(op, &call.args), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_EQ(std::memcmp(call.out, before.data(), sizeof call.out), 0) << "out was written";

  size_t bytes = 12345;
  EXPECT_EQ(fa_forward_workspace_size(op, &call.args, &bytes), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_EQ(bytes, 12345u);
  fa_destroy(op);
}

// clang-format off
const Refusal shape_refusals[] = {
    {"q_batch_negative", [](Call &c) { c.args.q.shape[0] = -1; }, {"args.q.shape[0] is -1", "0 .. 2147483647"}},
    {"q_rows_huge", [](Call &c) { c.args.q.shape[1] = 1LL << 31; }, {"args.q.shape[1] is 2147483648", "queries"}},  // [F33]
    {"q_heads_negative", [](Call &c) { c.args.q.shape[2] = INT64_MIN; }, {"args.q.shape[2] is -9223372036854775808"}},
    {"q_dim", [](Call &c) { c.args.q.shape[3] = 7; }, {"args.q.shape[3] is 7", "expected 8", "desc.head_dim"}},  // [F96]
    {"k_batch", [](Call &c) { c.args.k.shape[0] = 1; }, {"args.k.shape[0] is 1", "expected 2", "sequences of q"}},  // [F96]
    {"k_rows", [](Call &c) { c.args.k.shape[1] = -4; }, {"args.k.shape[1] is -4", "keys"}},
    {"k_heads", [](Call &c) { c.args.k.shape[2] = c.args.v.shape[2] = 3; },
     {"args.k.shape[2] is 3", "4 heads", "divisor of 4"}},
    {"k_heads_none", [](Call &c) { c.args.k.shape[2] = c.args.v.shape[2] = 0; }, {"args.k.shape[2] is 0", "4 heads"}},
    {"k_dim", [](Call &c) { c.args.k.shape[3] = 16; }, {"args.k.shape[3] is 16", "expected 8", "desc.head_dim"}},
    {"v_batch", [](Call &c) { c.args.v.shape[0] = 1; }, {"args.v.shape[0] is 1", "expected 2 (as k)"}},
    {"v_rows", [](Call &c) { c.args.v.shape[1] = 3; }, {"args.v.shape[1] is 3", "expected 4 (as k)"}},  // [F96]
    {"v_heads", [](Call &c) { c.args.v.shape[2] = 4; }, {"args.v.shape[2] is 4", "expected 2 (as k)"}},
    {"v_dim", [](Call &c) { c.args.v.shape[3] = 4; }, {"args.v.shape[3] is 4", "expected 8", "desc.head_dim_v"}},
    {"out_batch", [](Call &c) { c.args.out.shape[0] = 1; }, {"args.out.shape[0] is 1", "expected 2 (as q)"}},
    {"out_rows", [](Call &c) { c.args.out.shape[1] = 4; }, {"args.out.shape[1] is 4", "expected 3 (as q)"}},
    {"out_heads", [](Call &c) { c.args.out.shape[2] = 2; }, {"args.out.shape[2] is 2", "expected 4 (as q)"}},  // [F96]
    {"out_dim", [](Call &c) { c.args.out.shape[3] = 9; }, {"args.out.shape[3] is 9", "expected 8", "head_dim_v"}},
    {"lse_order", [](Call &c) { c.add_lse(); std::swap(c.args.lse.shape[1], c.args.lse.shape[2]); },
     {"args.lse.shape[1] is 3", "expected 4", "heads"}},  // [F96]
    {"lse_last", [](Call &c) { c.add_lse(); c.args.lse.shape[3] = 8; }, {"args.lse.shape[3] is 8", "expected 1"}},
    {"bias_batch", [](Call &c) { c.add_bias(); c.args.bias.shape[0] = 3; },
     {"args.bias.shape[0] is 3", "expected 1 or 2", "sequences"}},
    {"bias_heads", [](Call &c) { c.add_bias(); c.args.bias.shape[1] = 2; },
     {"args.bias.shape[1] is 2", "expected 1 or 4", "heads of q"}},
    {"bias_rows", [](Call &c) { c.add_bias(); c.args.bias.shape[2] = 2; },
     {"args.bias.shape[2] is 2", "expected 1 or 3", "queries"}},  // [F98]
    {"bias_columns", [](Call &c) { c.add_bias(); c.args.bias.shape[3] = 5; },
     {"args.bias.shape[3] is 5", "expected 1 or 4", "keys"}},
    {"bias_none", [](Call &c) { c.add_bias(); c.args.bias.shape[3] = 0; }, {"args.bias.shape[3] is 0", "1 or 4"}},
    {"mask_columns", [](Call &c) { c.add_mask(); c.args.mask.shape[3] = 3; }, {"args.mask.shape[3] is 3", "1 or 4"}},
    {"slopes_heads", [](Call &c) { c.add_slopes(); c.args.alibi_slopes.shape[1] = 1; },
     {"args.alibi_slopes.shape[1] is 1", "expected 4", "heads of q"}},
    {"slopes_flat", [](Call &c) { c.add_slopes(); c.args.alibi_slopes.shape[3] = 4; },
     {"args.alibi_slopes.shape[3] is 4", "expected 1"}},
    {"sinks_batch", [](Call &c) { c.add_sinks(); c.args.sinks.shape[0] = 5; },
     {"args.sinks.shape[0] is 5", "expected 1 or 2"}},
    {"table_batch", [](Call &c) { c.page(); c.args.block_table.shape[0] = 1; },
     {"args.block_table.shape[0] is 1", "expected 2", "sequences"}},
    {"table_width", [](Call &c) { c.page(); c.args.block_table.shape[1] = -1; },
     {"args.block_table.shape[1] is -1", "pages"}},
    {"table_reach", [](Call &c) { c.page(); c.args.block_table.shape[1] = 1 << 30; c.args.block_table.stride[0] = 0; },
     {"args.block_table.shape[1] x args.k.shape[1] is 4294967296", "2147483647"}},
    {"page_size", [](Call &c) { c.page(); c.args.k.shape[1] = c.args.v.shape[1] = 0; },
     {"args.k.shape[1] is 0", "expected 1", "page"}},
    {"just_too_many", [](Call &c) { for (int i = 0; i < 3; ++i) { c.args.q.shape[i] = 1 << 16; c.args.q.stride[i] = 0; } },
     {"args.q.shape is (65536, 65536, 65536, 8)", "2^48"}},  // [F35]
    {"too_many", [](Call &c) { for (int i = 0; i < 3; ++i) { c.args.q.shape[i] = 1 << 30; c.args.q.stride[i] = 0; } },
     {"args.q.shape is (1073741824, 1073741824, 1073741824, 8)", "2^48"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Shapes, Args, testing::ValuesIn(shape_refusals), name_of<Call>);

// clang-format off
const Refusal tensor_refusals[] = {
    {"q_dtype", [](Call &c) { c.args.q.dtype = FA_F16; }, {"args.q.dtype is 2 (FA_F16)", "FA_F32", "desc.dtype_q"}},
    {"k_dtype", [](Call &c) { c.args.k.dtype = FA_BF16; }, {"args.k.dtype is 3 (FA_BF16)", "FA_F32", "desc.dtype_kv"}},
    {"v_dtype", [](Call &c) { c.args.v.dtype = 99; }, {"args.v.dtype is 99", "not an fa_dtype", "desc.dtype_kv"}},
    {"out_dtype", [](Call &c) { c.args.out.dtype = FA_I32; }, {"args.out.dtype is 5 (FA_I32)", "desc.dtype_out"}},
    {"lse_dtype", [](Call &c) { c.add_lse(); c.args.lse.dtype = FA_F16; }, {"args.lse.dtype is 2", "expected FA_F32"}},
    {"bias_dtype", [](Call &c) { c.add_bias(); c.args.bias.dtype = FA_BOOL; },
     {"args.bias.dtype is 4 (FA_BOOL)", "FA_F32, FA_F16 or FA_BF16"}},
    {"mask_dtype", [](Call &c) { c.add_mask(); c.args.mask.dtype = FA_F32; },
     {"args.mask.dtype is 1 (FA_F32)", "FA_BOOL"}},
    {"slopes_dtype", [](Call &c) { c.add_slopes(); c.args.alibi_slopes.dtype = FA_F16; }, {"args.alibi_slopes.dtype"}},
    {"sinks_dtype", [](Call &c) { c.add_sinks(); c.args.sinks.dtype = -1; }, {"args.sinks.dtype is -1", "FA_F32"}},
    {"table_dtype", [](Call &c) { c.page(); c.args.block_table.dtype = FA_F32; },
     {"args.block_table.dtype is 1 (FA_F32)", "FA_I32"}},
    {"q_reserved", [](Call &c) { c.args.q.reserved = 1; }, {"args.q.reserved is 1", "expected 0"}},  // [F83]
    {"bias_reserved", [](Call &c) { c.add_bias(); c.args.bias.reserved = -1; }, {"args.bias.reserved is -1"}},
    {"q_stride", [](Call &c) { c.args.q.stride[1] = largest; }, {"args.q.stride[1]", "9223372036854775807", "2^63"}},
    {"k_stride", [](Call &c) { c.args.k.stride[0] = INT64_MIN; }, {"args.k.stride[0] is -9223372036854775808"}},
    {"v_stride_sum", [](Call &c) { c.args.v.stride[0] = c.args.v.stride[2] = largest / 5; }, {"args.v.stride[2]"}},
    {"out_stride_zero", [](Call &c) { c.args.out.stride[0] = 0; }, {"args.out.stride[0] is 0", "written"}},  // [F97]
    {"out_stride_dim", [](Call &c) { c.args.out.stride[3] = 0; }, {"args.out.stride[3] is 0", "repeats"}},
    {"lse_stride_zero", [](Call &c) { c.add_lse(); c.args.lse.stride[2] = 0; }, {"args.lse.stride[2] is 0"}},  // [F97]
    {"lse_misaligned", [](Call &c) { c.add_lse(); c.args.lse.data = behind(c.lse); }, {"args.lse.data is 0x", "multiple", "4"}},
    {"cu_q_misaligned", [](Call &c) { c.pack_q(); c.args.cu_seqlens_q = behind(c.cu_q); }, {"args.cu_seqlens_q is 0x"}},  // [F36]
    {"offset_misaligned", [](Call &c) { c.args.q_offset = behind(c.offset); }, {"args.q_offset is 0x", "multiple"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Tensors, Args, testing::ValuesIn(tensor_refusals), name_of<Call>);

// clang-format off
const Refusal call_refusals[] = {
    {"table_and_cu_k", [](Call &c) { c.page(); c.args.cu_seqlens_k = c.cu_k; },
     {"args.block_table with args.cu_seqlens_k", "packed"}},  // [F45]
    {"table_and_batch_idx", [](Call &c) { c.page(); c.args.kv_batch_idx = c.batch_idx; },
     {"args.block_table with args.kv_batch_idx", "pages"}},  // [F46]
    {"batch_idx_and_cu_k", [](Call &c) { c.pack_k(); c.args.kv_batch_idx = c.batch_idx; },
     {"args.kv_batch_idx with args.cu_seqlens_k", "packed"}},  // [F47]
    {"splits_and_invariant", [](Call &c) { c.args.num_splits = 2; c.desc.flags = FA_FLAG_BATCH_INVARIANT; },
     {"args.num_splits is 2", "FA_FLAG_BATCH_INVARIANT"}},  // [F48]
    {"splits_negative", [](Call &c) { c.args.num_splits = -1; }, {"args.num_splits is -1", "0 .. 1024"}},
    {"splits_many", [](Call &c) { c.args.num_splits = 1025; }, {"args.num_splits is 1025", "0 .. 1024"}},  // [F108]
    {"reserved", [](Call &c) { c.args.reserved = 7; }, {"args.reserved is 7", "expected 0"}},  // [F83]
    {"num_seqs_negative", [](Call &c) { c.args.num_seqs = -1; }, {"args.num_seqs is -1"}},
    {"num_seqs_dense", [](Call &c) { c.args.num_seqs = 3; }, {"args.q.shape[0] is 2", "expected 3", "num_seqs"}},
    {"num_seqs_forgotten", [](Call &c) { c.pack_q(); c.args.num_seqs = 0; },
     {"args.num_seqs is 0", "cu_seqlens_q", "less one"}},  // [F106]
    {"num_seqs_forgotten_k", [](Call &c) { c.pack_k(); c.args.num_seqs = 0; }, {"args.num_seqs is 0", "cu_seqlens_k"}},
    {"packed_q_batch", [](Call &c) { c.pack_q(); c.args.q.shape[0] = 2; },
     {"args.q.shape[0] is 2", "expected 1", "cu_seqlens_q"}},  // [F96]
    {"packed_k_batch", [](Call &c) { c.pack_k(); c.args.k.shape[0] = 2; },
     {"args.k.shape[0] is 2", "expected 1", "cu_seqlens_k"}},
    {"packed_q_dense_k", [](Call &c) { c.pack_q(); c.args.num_seqs = 4; },
     {"args.k.shape[0] is 2", "expected 4", "num_seqs"}},
    {"max_seqlen_q_negative", [](Call &c) { c.args.max_seqlen_q = -1; }, {"args.max_seqlen_q is -1"}},
    {"max_seqlen_k_huge", [](Call &c) { c.args.max_seqlen_k = 1LL << 31; }, {"args.max_seqlen_k is 2147483648"}},
    {"max_seqlen_q_short", [](Call &c) { c.args.max_seqlen_q = 2; },
     {"args.max_seqlen_q is 2", "all 3 rows of q", "seqused_q"}},
    {"max_seqlen_k_short", [](Call &c) { c.args.max_seqlen_k = 1; },
     {"args.max_seqlen_k is 1", "all 4 rows of k", "seqused_k"}},
    {"max_seqlen_k_paged", [](Call &c) { c.page(); c.args.max_seqlen_k = 7; }, {"args.max_seqlen_k is 7", "8 rows"}},
    {"bias_below_bound", [](Call &c) { c.pack_q(); c.args.max_seqlen_q = 3; c.add_bias(); c.args.bias.shape[2] = 2; },
     {"args.bias.shape[2] is 2", "1 or 3", "max_seqlen_q"}},
    {"struct_size_zero", [](Call &c) { c.args.struct_size = 0; }, {"fa_forward_args.struct_size is 0", "fa_forward_args_init"}},
    {"struct_size_short", [](Call &c) { c.args.struct_size = 320; }, {"fa_forward_args.struct_size is 320", "at least"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Calls, Args, testing::ValuesIn(call_refusals), name_of<Call>);

// ---- fa_forward_args: refusals of fa_forward alone

class Data : public testing::TestWithParam<Refusal> {};

TEST_P(Data, IsRefused) {
  Call call;
  GetParam().change(call);
  fa_op *op = call.create();
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(fa_forward(op, &call.args), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  size_t bytes = 0;
  EXPECT_EQ(fa_forward_workspace_size(op, &call.args, &bytes), FA_OK) << fa_last_error();
  fa_destroy(op);
}

// clang-format off
const Refusal data_refusals[] = {
    {"q_null", [](Call &c) { c.args.q.data = nullptr; }, {"args.q.data is NULL", "(2, 3, 4, 8)"}},
    {"k_null", [](Call &c) { c.args.k.data = nullptr; }, {"args.k.data is NULL", "(2, 4, 2, 8)"}},
    {"v_null", [](Call &c) { c.args.v.data = nullptr; }, {"args.v.data is NULL"}},
    {"out_null", [](Call &c) { c.args.out.data = nullptr; }, {"args.out.data is NULL"}},
    {"q_misaligned", [](Call &c) { c.args.q.data = behind(c.q); }, {"args.q.data is 0x", "multiple", "4 bytes"}},  // [F36]
    {"out_is_q", [](Call &c) { c.args.out.data = c.q; }, {"args.out overlaps args.q: 0x", "nothing else"}},
    {"out_is_lse", [](Call &c) { c.add_lse(); c.args.lse.data = c.out; }, {"args.out overlaps args.lse"}},
    {"out_begins_in_k", [](Call &c) { c.args.out.data = c.k + 5; }, {"args.out overlaps args.k"}},
    {"out_ends_in_v", [](Call &c) { c.args.v.data = c.out + 190; }, {"args.out overlaps args.v"}},
    {"out_holds_sinks", [](Call &c) { c.add_sinks(); c.args.sinks.data = c.out + 8; }, {"args.out overlaps args.sinks"}},
    {"bias_holds_lse", [](Call &c) { c.add_lse(); c.add_bias(); c.args.lse.data = c.bias + 8; },
     {"args.lse overlaps args.bias"}},
    {"reversed_out_holds_mask",
     [](Call &c) { c.args.out.data = c.out + 191; for (int64_t &s : c.args.out.stride) s = -s; c.add_mask();
                   c.args.mask.data = c.out + 1; },
     {"args.out overlaps args.mask"}},
    {"out_holds_table", [](Call &c) { c.page(); c.args.block_table.data = c.out; }, {"args.out overlaps args.block_table"}},
    {"out_in_workspace",
     [](Call &c) { c.args.workspace = c.workspace; c.args.workspace_size = sizeof c.workspace;
                   c.args.out.data = c.workspace + 4096; },
     {"args.workspace overlaps args.out"}},
    {"workspace_misaligned",
     [](Call &c) { c.args.workspace = c.workspace + 128; c.args.workspace_size = 1024; },
     {"args.workspace is 0x", "multiple of 256"}},  // [F109]
    {"workspace_null", [](Call &c) { c.args.workspace_size = 64; },
     {"args.workspace is NULL", "args.workspace_size is 64"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Errors, Data, testing::ValuesIn(data_refusals), name_of<Call>);

TEST(Workspace, TooSmallTellsBothSizes) {
  Call call;
  call.args.num_splits = 2;
  fa_op *op = call.create();
  size_t needed = 0;
  ASSERT_EQ(fa_forward_workspace_size(op, &call.args, &needed), FA_OK) << fa_last_error();
  ASSERT_GT(needed, 0u) << "two splits need a workspace";
  call.args.workspace = call.workspace;
  call.args.workspace_size = needed - 1;
  EXPECT_EQ(fa_forward(op, &call.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.workspace_size is " + std::to_string(needed - 1),
                                            "at least " + std::to_string(needed)}),
            "");
  fa_destroy(op);
}

// [F71]
TEST(Device, CudaNeedsAGpu) {
  fa_kernel best = {};
  best.struct_size = sizeof best;
  ASSERT_EQ(fa_kernel_info(0, &best), FA_OK);
  if (best.available && std::string(best.device) == "cuda") GTEST_SKIP() << "there is one";
  Call call;
  call.desc.device = FA_DEVICE_CUDA;
  fa_op *op = nullptr;
  EXPECT_EQ(fa_create(&call.desc, &op), FA_ERROR_NO_DEVICE);
  EXPECT_EQ(op, nullptr);
  EXPECT_EQ(missing_words(fa_last_error(), {"FA_DEVICE_CUDA", "FA_DEVICE_CPU"}), "");
}

// ---- NULL where there must be something

TEST(Null, IsNamed) {
  Call call;
  fa_op *const op = call.create();
  fa_op *none;
  size_t bytes;
  const struct {
    fa_status status;
    std::string text;
    const char *word;
  } refusals[] = {
      {fa_create(nullptr, &none), fa_last_error(), "desc is NULL"},
      {fa_create(&call.desc, nullptr), fa_last_error(), "op is NULL"},
      {fa_forward(nullptr, &call.args), fa_last_error(), "op is NULL"},
      {fa_forward_workspace_size(nullptr, &call.args, &bytes), fa_last_error(), "op is NULL"},
      {fa_kernel_info(0, nullptr), fa_last_error(), "info is NULL"},
      {fa_forward(op, nullptr), fa_last_error(), "args is NULL"},
      {fa_forward_workspace_size(op, nullptr, &bytes), fa_last_error(), "args is NULL"},
      {fa_forward_workspace_size(op, &call.args, nullptr), fa_last_error(), "bytes is NULL"},
  };
  for (const auto &refusal : refusals) {
    EXPECT_EQ(refusal.status, FA_ERROR_INVALID_ARGUMENT) << refusal.word;
    EXPECT_EQ(missing_words(refusal.text, {refusal.word}), "");
  }
  fa_destroy(op);
}

// [F116] [F137] [F143]
TEST(Null, IsHarmlessWhereNothingIsAnswered) {
  fa_destroy(nullptr);
  fa_desc_init(nullptr, sizeof(fa_desc));
  fa_forward_args_init(nullptr, sizeof(fa_forward_args));
  fa_tensor_init(nullptr, nullptr, FA_F32, 1, 1, 1, 1);
  fa_set_log(nullptr, nullptr);
  EXPECT_STREQ(fa_op_kernel_name(nullptr), "");
}

}  // namespace
}  // namespace api_test

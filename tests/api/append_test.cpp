// fa_append's arguments: every refusal that fa.h documents, overlaps, structures of other sizes, and unusual but
// legal calls.
#include <algorithm>
#include <cstddef>

#include "append_call.h"
#include "refusal.h"

namespace api_test {
namespace {

using Refusal = RefusalOf<AppendCall>;

class AppendArgs : public testing::TestWithParam<Refusal> {};

// [F53] [F56] [F243]
TEST_P(AppendArgs, AreRefused) {
  AppendCall call;
  GetParam().change(call);
  fa_op *op = call.create();
  ASSERT_NE(op, nullptr);
  const AppendCall before = call;
  EXPECT_EQ(fa_append(op, &call.call), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_TRUE(call.same_outputs(before)) << "something was written";
  size_t bytes = 12345;
  EXPECT_EQ(fa_append_workspace_size(op, &call.call, &bytes), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_EQ(bytes, 12345u);
  fa_destroy(op);
}

// clang-format off
const Refusal refusals[] = {
    {"slots_and_table", [](AppendCall &c) { c.add_slots(); c.add_table(); },
     {"args.slot_mapping with args.block_table", "pages"}},  // [F236]
    {"slots_and_kv_batch_idx", [](AppendCall &c) { c.add_slots(); c.call.kv_batch_idx = c.batch_idx; },
     {"args.slot_mapping with args.kv_batch_idx"}},  // [F236]
    {"table_and_kv_batch_idx", [](AppendCall &c) { c.add_table(); c.call.kv_batch_idx = c.batch_idx; },
     {"args.block_table with args.kv_batch_idx", "permute"}},  // [F237]
    {"cos_alone", [](AppendCall &c) { c.add_rotary(); c.call.rotary_sin = {}; }, {"args.rotary_cos without args.rotary_sin"}},  // [F238]
    {"sin_alone", [](AppendCall &c) { c.add_rotary(); c.call.rotary_cos = {}; }, {"args.rotary_sin without args.rotary_cos"}},  // [F238]
    {"q_alone", [](AppendCall &c) { c.add_q(); c.call.q_out = {}; }, {"args.q without args.q_out"}},  // [F238]
    {"q_out_alone", [](AppendCall &c) { c.add_q(); c.call.q = {}; }, {"args.q_out without args.q;"}},  // [F238]
    {"v_alone", [](AppendCall &c) { c.call.v_cache = {}; }, {"args.v without args.v_cache", "both"}},  // [F238]
    {"v_cache_alone", [](AppendCall &c) { c.call.v = {}; }, {"args.v_cache without args.v:", "neither"}},  // [F238]
    {"q_unrotated", [](AppendCall &c) { c.add_q(); c.call.rotary_cos = c.call.rotary_sin = {}; }, {"args.q without args.rotary_cos"}},  // [F239]
    {"positions_unrotated", [](AppendCall &c) { c.add_positions(); c.call.rotary_cos = c.call.rotary_sin = {}; },
     {"args.positions without args.rotary_cos"}},  // [F239]
    {"flags_unrotated", [](AppendCall &c) { c.call.flags = FA_APPEND_ROTARY_TAIL; }, {"args.flags is 0x4", "args.rotary_cos"}},  // [F239]
    {"slots_unplaced", [](AppendCall &c) { c.add_slots(); c.add_rotary(); },
     {"args.rotary_cos with args.slot_mapping", "args.positions", "args.cache_seqlens"}},  // [F240]
    {"flags", [](AppendCall &c) { c.add_rotary(); c.call.flags = 0x33; }, {"args.flags is 0x33", "0x30", "FA_APPEND_*"}},
    {"reserved", [](AppendCall &c) { c.call.reserved = 1; }, {"args.reserved is 1"}},
    {"num_seqs", [](AppendCall &c) { c.call.num_seqs = 3; }, {"args.k.shape[0] is 2", "3 (num_seqs)"}},
    {"num_seqs_negative", [](AppendCall &c) { c.call.num_seqs = -1; }, {"args.num_seqs is -1"}},
    {"packed_without_number", [](AppendCall &c) { c.pack(); c.call.num_seqs = 0; }, {"args.num_seqs is 0", "cu_seqlens_new"}},
    {"packed_batch", [](AppendCall &c) { c.pack(); c.call.k.shape[0] = 2; }, {"args.k.shape[0] is 2", "cu_seqlens_new"}},
    {"bound", [](AppendCall &c) { c.call.max_seqlen_new = 2; }, {"args.max_seqlen_new is 2", "3 rows of k", "seqused_new"}},
    {"bound_negative", [](AppendCall &c) { c.call.max_seqlen_new = -2; }, {"args.max_seqlen_new is -2"}},
    {"k_dim", [](AppendCall &c) { c.call.k.shape[3] = 4; }, {"args.k.shape[3] is 4", "desc.head_dim"}},
    {"v_heads", [](AppendCall &c) { c.call.v.shape[2] = 1; }, {"args.v.shape[2] is 1", "as k"}},
    {"cache_heads", [](AppendCall &c) { c.call.k_cache.shape[2] = 1; }, {"args.k_cache.shape[2] is 1", "as k"}},
    {"cache_batch", [](AppendCall &c) { c.call.k_cache.shape[0] = 1; }, {"args.k_cache.shape[0] is 1", "sequences"}},
    {"v_cache_rows", [](AppendCall &c) { c.call.v_cache.shape[1] = 7; }, {"args.v_cache.shape[1] is 7", "as k_cache"}},
    {"cache_type", [](AppendCall &c) { c.call.k_cache.dtype = FA_F16; }, {"args.k_cache.dtype is 2", "desc.dtype_kv"}},
    {"k_type", [](AppendCall &c) { c.call.k.dtype = FA_I32; }, {"args.k.dtype is 5"}},
    {"pairs", [](AppendCall &c) { c.add_rotary(); c.call.rotary_cos.shape[3] = 5; }, {"args.rotary_cos.shape[3] is 5", "1 .. 4"}},
    {"no_pairs", [](AppendCall &c) { c.add_rotary(); c.call.rotary_cos.shape[3] = 0; }, {"args.rotary_cos.shape[3] is 0"}},
    {"sin_rows", [](AppendCall &c) { c.add_rotary(); c.call.rotary_sin.shape[1] = 9; }, {"args.rotary_sin.shape[1] is 9", "as rotary_cos"}},
    {"positions_type", [](AppendCall &c) { c.add_positions(); c.call.positions.dtype = FA_F32; },
     {"args.positions.dtype is 1", "FA_I32 or FA_I64"}},
    {"positions_rows", [](AppendCall &c) { c.add_positions(); c.call.positions.shape[1] = 2; }, {"args.positions.shape[1] is 2", "as k"}},
    {"slots_rows", [](AppendCall &c) { c.add_slots(); c.call.slot_mapping.shape[0] = 1; }, {"args.slot_mapping.shape[0] is 1"}},
    {"q_rows_by_positions", [](AppendCall &c) { c.add_q(); c.add_positions(); c.call.q.shape[1] = 2; },
     {"args.q.shape[1] is 2", "q_positions"}},
    {"q_rows_by_seqused", [](AppendCall &c) { c.add_q(); c.call.seqused_new = c.used_new; c.call.q.shape[1] = 2; },
     {"args.q.shape[1] is 2", "seqused_new"}},
    {"q_rows_packed", [](AppendCall &c) { c.add_q(); c.pack(); c.call.q.shape[1] = 2; }, {"args.q.shape[1] is 2", "cu_seqlens_new"}},
    {"q_out_heads", [](AppendCall &c) { c.add_q(); c.call.q_out.shape[2] = 2; }, {"args.q_out.shape[2] is 2", "as q"}},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Append, AppendArgs, testing::ValuesIn(refusals), name_of<AppendCall>);

// [F31] [F97] [F197] [F241]
TEST(Append, OverlapsAreRefusedUnlessTheyAreExact) {
  AppendCall call;
  call.add_q();
  call.call.q_out = call.call.q;  // in place
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  call.call.q_out.stride[1] = 0;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  call.call.q_out = call.call.q;
  call.call.q_out.shape[0] = call.call.q.shape[0] = 1;
  call.call.k.shape[0] = call.call.v.shape[0] = call.call.k_cache.shape[0] = call.call.v_cache.shape[0] = 1;
  call.call.q_out.data = call.new_q + 1;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.q_out overlaps args.q"}), "");
  call.call.q_out.data = call.new_q;
  call.call.q_out.dtype = call.desc.dtype_q = FA_F16, call.call.q.dtype = FA_F32;
  call.desc.dtype_kv = FA_F32;
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << "of another type";

  AppendCall cache;
  cache.call.k.data = cache.k_cache;
  EXPECT_EQ(cache.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.k_cache overlaps args.k"}), "");
}

/// K and V in one row of the cache.
// [F31]
TEST(Append, KeysAndValuesMayShareARow) {
  AppendCall call;
  static float both[AppendCall::b * AppendCall::cache_rows * AppendCall::hkv * AppendCall::d * 2];
  for (fa_tensor *t : {&call.call.k_cache, &call.call.v_cache}) {
    t->data = both + (t == &call.call.v_cache ? AppendCall::d : 0);
    for (int i = 0; i < 3; ++i) t->stride[i] *= 2;
  }
  call.new_v[0] = 7;
  ASSERT_EQ(call.run(), FA_OK) << fa_last_error();
  EXPECT_EQ(both[0], 1.5f);
  EXPECT_EQ(both[AppendCall::d], 7.0f);
}

// [F243]
TEST(Append, NeedsNoWorkspace) {
  AppendCall call;
  call.add_q();
  fa_op *op = call.create();
  size_t bytes = 1;
  EXPECT_EQ(fa_append_workspace_size(op, &call.call, &bytes), FA_OK) << fa_last_error();
  EXPECT_EQ(bytes, 0u);
  call.call.workspace = call.workspace;
  call.call.workspace_size = 256;
  EXPECT_EQ(fa_append(op, &call.call), FA_OK) << fa_last_error();
  EXPECT_EQ(fa_append(op, nullptr), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args is NULL", "fa_append_args_init"}), "");
  EXPECT_EQ(fa_append(nullptr, &call.call), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(fa_append_workspace_size(op, &call.call, nullptr), FA_ERROR_INVALID_ARGUMENT);
  fa_destroy(op);
}

// [F63] [F64] [F65] [F242]
TEST(Append, StructuresOfOtherSizes) {
  fa_append_args defaults;
  std::memset(&defaults, 0xff, sizeof defaults);
  fa_append_args_init(&defaults, sizeof defaults);
  EXPECT_EQ(defaults.struct_size, sizeof defaults);
  const char *const bytes = reinterpret_cast<const char *>(&defaults);
  EXPECT_TRUE(std::all_of(bytes + sizeof(size_t), bytes + sizeof defaults, [](char byte) { return byte == 0; }));
  fa_append_args_init(nullptr, sizeof defaults);

  AppendCall call;
  fa_op *op = call.create();
  constexpr size_t least = offsetof(fa_append_args, k_scale);
  for (size_t size = least; size <= sizeof(fa_append_args); size += 8) {
    if (size < offsetof(fa_append_args, cu_seqlens_new) && (size - least) % sizeof(fa_tensor) != 0) continue;
    fa_append_args shorter;
    std::memset(&shorter, 0x5a, sizeof shorter);
    std::memcpy(&shorter, &call.call, size);
    shorter.struct_size = size;
    EXPECT_EQ(fa_append(op, &shorter), FA_OK) << size << ": " << fa_last_error();
  }
  call.call.struct_size = least - 8;
  EXPECT_EQ(fa_append(op, &call.call), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"fa_append_args.struct_size"}), "");
  struct {
    fa_append_args args;
    char more[16];
  } longer = {call.call, {}};
  longer.args.struct_size = sizeof longer;
  EXPECT_EQ(fa_append(op, &longer.args), FA_OK) << fa_last_error();
  longer.more[3] = 1;
  EXPECT_EQ(fa_append(op, &longer.args), FA_ERROR_INVALID_ARGUMENT);
  fa_destroy(op);
}

/// Tensors without elements have no memory: a call of no new tokens is legal, and one of queries alone.
// [F20] [F82]
TEST(Append, NothingToWrite) {
  AppendCall call;
  call.add_q();
  call.call.k.shape[1] = call.call.v.shape[1] = 0;
  call.call.k.data = call.call.v.data = nullptr;
  const AppendCall before = call;
  ASSERT_EQ(call.run(), FA_OK) << fa_last_error();
  EXPECT_EQ(std::memcmp(call.k_cache, before.k_cache, sizeof call.k_cache), 0);
  EXPECT_EQ(call.q_out[0], 0.0f);
}

/// fa_forward of the same op reads the appended rows.
// [F220]
TEST(Append, ForwardReadsIt) {
  AppendCall call;
  call.call.cache_seqlens = call.lens;
  std::memset(call.k_cache, 0, sizeof call.k_cache);
  std::memset(call.v_cache, 0, sizeof call.v_cache);
  fa_op *op = call.create();
  ASSERT_EQ(fa_append(op, &call.call), FA_OK) << fa_last_error();
  int32_t used[] = {8, 3};
  call.args.k = call.call.k_cache;
  call.args.v = call.call.v_cache;
  call.args.seqused_k = used;
  ASSERT_EQ(fa_forward(op, &call.args), FA_OK) << fa_last_error();
  const float *const second = call.out + AppendCall::sq * AppendCall::hq * AppendCall::d;
  EXPECT_FLOAT_EQ(second[0], 1.5f) << "all of its keys are new";
  fa_destroy(op);
}

}  // namespace
}  // namespace api_test

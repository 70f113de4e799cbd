// fa_merge's arguments: every refusal that fa.h documents, overlaps, structures of other sizes, and unusual but
// legal calls.
#include <cmath>
#include <cstddef>
#include <limits>

#include "merge_call.h"
#include "refusal.h"

namespace api_test {
namespace {

using Refusal = RefusalOf<MergeCall>;

class MergeArgs : public testing::TestWithParam<Refusal> {};

// [F53] [F56]
TEST_P(MergeArgs, AreRefused) {
  MergeCall call;
  GetParam().change(call);
  fa_op *op = call.create();
  ASSERT_NE(op, nullptr);
  EXPECT_EQ(fa_merge(op, &call.args), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_TRUE(call.unwritten());
  size_t bytes = 12345;
  EXPECT_EQ(fa_merge_workspace_size(op, &call.args, &bytes), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_EQ(bytes, 12345u);
  fa_destroy(op);
}

// clang-format off
const Refusal merge_refusals[] = {
    {"no_parts", [](MergeCall &c) { c.args.num_parts = 0; }, {"args.num_parts is 0", "1 .. 32"}},  // [F219]
    {"negative_parts", [](MergeCall &c) { c.args.num_parts = -1; }, {"args.num_parts is -1", "1 .. 32"}},  // [F219]
    {"too_many_parts", [](MergeCall &c) { c.args.num_parts = 33; }, {"args.num_parts is 33", "1 .. 32", "several merges"}},  // [F219]
    {"flags", [](MergeCall &c) { c.args.flags = 6; }, {"args.flags is 0x6", "FA_MERGE_BASE_2", "0x6"}},
    {"outs_null", [](MergeCall &c) { c.args.outs = nullptr; }, {"args.outs is NULL", "args.num_parts", "3"}},
    {"lses_null", [](MergeCall &c) { c.args.lses = nullptr; }, {"args.lses is NULL", "args.num_parts", "3"}},
    {"outs_unaligned", [](MergeCall &c) { c.args.outs = reinterpret_cast<fa_tensor *>(reinterpret_cast<char *>(c.outs) + 4); },
     {"args.outs is 0x", "multiple", "8"}},
    {"lses_unaligned", [](MergeCall &c) { c.args.lses = reinterpret_cast<fa_tensor *>(reinterpret_cast<char *>(c.lses) + 4); },
     {"args.lses is 0x", "multiple", "8"}},
    {"out_dim", [](MergeCall &c) { c.args.out.shape[3] = 4; }, {"args.out.shape[3] is 4", "expected 8 (desc.head_dim_v)"}},
    {"out_type", [](MergeCall &c) { c.args.out.dtype = FA_F16; }, {"args.out.dtype is 2 (FA_F16)", "desc.dtype_out"}},
    {"out_repeats", [](MergeCall &c) { c.args.out.stride[0] = 0; }, {"args.out.stride[0] is 0", "repeats"}},
    {"out_batch_negative", [](MergeCall &c) { c.args.out.shape[0] = -1; }, {"args.out.shape[0] is -1"}},
    {"part_batch", [](MergeCall &c) { c.outs[1].shape[0] = 1; }, {"args.outs[1].shape[0] is 1", "expected 2 (as out)"}},
    {"part_rows", [](MergeCall &c) { c.outs[2].shape[1] = 5; }, {"args.outs[2].shape[1] is 5", "expected 3 (as out)"}},
    {"part_heads", [](MergeCall &c) { c.outs[0].shape[2] = 2; }, {"args.outs[0].shape[2] is 2", "expected 4 (as out)"}},
    {"part_dim", [](MergeCall &c) { c.outs[1].shape[3] = 7; }, {"args.outs[1].shape[3] is 7", "expected 8 (as out)"}},
    {"part_type", [](MergeCall &c) { c.outs[1].dtype = FA_I32; }, {"args.outs[1].dtype is 5 (FA_I32)", "FA_F32, FA_F16 or FA_BF16"}},
    {"part_reserved", [](MergeCall &c) { c.outs[2].reserved = 1; }, {"args.outs[2].reserved is 1"}},
    {"part_of_thirty_two", [](MergeCall &c) { c.args.num_parts = 32; c.outs[31].shape[1] = 2; }, {"args.outs[31].shape[1] is 2"}},
    {"lse_part_rows", [](MergeCall &c) { c.lses[1].shape[2] = 4; }, {"args.lses[1].shape[2] is 4", "queries, as out"}},
    {"lse_part_transposed", [](MergeCall &c) { c.lses[1].shape[1] = 3; c.lses[1].shape[2] = 4; },
      {"args.lses[1].shape[1] is 3", "heads of out"}},
    {"lse_part_type", [](MergeCall &c) { c.lses[2].dtype = FA_F16; }, {"args.lses[2].dtype is 2 (FA_F16)", "FA_F32"}},
    {"lse_part_last", [](MergeCall &c) { c.lses[0].shape[3] = 8; }, {"args.lses[0].shape[3] is 8", "expected 1"}},
    {"lse_rows", [](MergeCall &c) { c.add_lse(); c.args.lse.shape[2] = 2; }, {"args.lse.shape[2] is 2", "queries, as out"}},
    {"lse_type", [](MergeCall &c) { c.add_lse(); c.args.lse.dtype = FA_BF16; }, {"args.lse.dtype is 3", "FA_F32"}},
    {"lse_repeats", [](MergeCall &c) { c.add_lse(); c.args.lse.stride[1] = 0; }, {"args.lse.stride[1] is 0", "repeats"}},
    {"mask_type", [](MergeCall &c) { c.add_mask(); c.args.mask.dtype = FA_I32; }, {"args.mask.dtype is 5 (FA_I32)", "FA_BOOL"}},
    {"mask_batch", [](MergeCall &c) { c.add_mask(); c.args.mask.shape[0] = 3; }, {"args.mask.shape[0] is 3", "1 or 2"}},
    {"mask_heads", [](MergeCall &c) { c.add_mask(); c.args.mask.shape[1] = 2; }, {"args.mask.shape[1] is 2", "1 or 4"}},
    {"mask_rows", [](MergeCall &c) { c.add_mask(); c.args.mask.shape[2] = 1; },
      {"args.mask.shape[2] is 1", "expected 3 (queries, as out)"}},
    {"struct_size", [](MergeCall &c) { c.args.struct_size = 8; }, {"fa_merge_args.struct_size is 8", "fa_merge_args_init"}},
    {"struct_size_without_out", [](MergeCall &c) { c.args.struct_size = offsetof(fa_merge_args, out); },
      {"fa_merge_args.struct_size is 32"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Refused, MergeArgs, testing::ValuesIn(merge_refusals), name_of<MergeCall>);

/// Refusals of fa_merge alone: data, workspaces, overlaps.
class MergeRuns : public testing::TestWithParam<Refusal> {};

// [F53] [F56]
TEST_P(MergeRuns, AreRefused) {
  MergeCall call;
  GetParam().change(call);
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << fa_last_error();
  EXPECT_EQ(missing_words(fa_last_error(), GetParam().words), "");
  EXPECT_TRUE(call.unwritten());
}

// clang-format off
const Refusal merge_run_refusals[] = {
    {"out_data", [](MergeCall &c) { c.args.out.data = nullptr; }, {"args.out.data is NULL"}},
    {"part_data", [](MergeCall &c) { c.outs[1].data = nullptr; }, {"args.outs[1].data is NULL"}},
    {"lse_part_data", [](MergeCall &c) { c.lses[2].data = nullptr; }, {"args.lses[2].data is NULL"}},
    {"part_unaligned", [](MergeCall &c) { c.outs[1].data = reinterpret_cast<char *>(c.out_of[1]) + 2; },
      {"args.outs[1].data is 0x", "multiple"}},
    {"lse_part_unaligned", [](MergeCall &c) { c.lses[0].data = reinterpret_cast<char *>(c.lse_of[0]) + 1; },
      {"args.lses[0].data", "multiple"}},
    {"workspace_unaligned", [](MergeCall &c) { c.args.workspace = c.workspace + 8; c.args.workspace_size = 64; },
      {"args.workspace", "256"}},
    {"workspace_null", [](MergeCall &c) { c.args.workspace_size = 64; }, {"args.workspace is NULL", "64"}},
    {"out_over_part", [](MergeCall &c) { c.args.out.data = c.out_of[1]; }, {"args.out overlaps args.outs[1]"}},  // [F217]
    {"out_within_first", [](MergeCall &c) { c.args.out.data = c.out_of[0] + 4; }, {"args.out overlaps args.outs[0]"}},  // [F217]
    {"out_is_first_transposed", [](MergeCall &c) { c.args.out.data = c.out_of[0]; c.args.out.stride[1] = 8; c.args.out.stride[2] = 24; },
     {"args.out overlaps args.outs[0]"}},  // [F217]
    {"out_is_first_of_another_type", [](MergeCall &c) { c.args.out.data = c.out_of[0]; c.outs[0].dtype = FA_BF16;
      for (int64_t &each : c.outs[0].stride) each *= 2; },
     {"args.out overlaps args.outs[0]"}},  // [F217]
    {"out_over_lse_part", [](MergeCall &c) { c.args.out.data = c.lse_of[0]; }, {"args.out overlaps args.lses[0]"}},  // [F217]
    {"lse_over_lse_part", [](MergeCall &c) { c.add_lse(); c.args.lse.data = c.lse_of[2]; }, {"args.lse overlaps args.lses[2]"}},  // [F217]
    {"lse_within_first", [](MergeCall &c) { c.add_lse(); c.args.lse.data = c.lse_of[0] + 1; },
      {"args.lse overlaps args.lses[0]"}},  // [F217]
    {"lse_over_part", [](MergeCall &c) { c.add_lse(); c.args.lse.data = c.out_of[2] + 3; }, {"args.lse overlaps args.outs[2]"}},  // [F217]
    {"lse_over_out", [](MergeCall &c) { c.add_lse(); c.args.lse.data = c.out + 2; }, {"args.out overlaps args.lse"}},  // [F217]
    {"lse_over_mask", [](MergeCall &c) { c.add_lse(); c.add_mask(); c.args.mask.data = c.lse; },
      {"args.lse overlaps args.mask"}},  // [F217]
    {"out_over_the_array", [](MergeCall &c) { c.args.out.data = c.outs; }, {"args.out overlaps args.outs"}},  // [F217]
    {"workspace_over_part", [](MergeCall &c) { c.args.workspace = c.out_of[0]; c.args.workspace_size = 256; },
      {"args.workspace overlaps args.outs[0]"}},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Refused, MergeRuns, testing::ValuesIn(merge_run_refusals), name_of<MergeCall>);

// [F217]
TEST(MergeLegal, InPlaceAndInPartsThatShareMemory) {
  MergeCall call;
  call.args.out.data = call.out_of[0];
  call.args.lse = call.lses[0];
  call.outs[2] = call.outs[1];  // inputs may be one
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  EXPECT_FLOAT_EQ(call.out_of[0][0], (1 + 2 + 2) / 3.0f);
  EXPECT_FLOAT_EQ(call.lse_of[0][0], std::log(3.0f));
}

TEST(MergeLegal, NoElements) {
  for (const int dimension : {0, 1, 2}) {
    MergeCall call;
    call.add_lse();
    const int of_lse[] = {0, 2, 1};
    call.args.out.shape[dimension] = call.args.lse.shape[of_lse[dimension]] = 0;
    for (int p = 0; p < call.parts; ++p) {
      call.outs[p].shape[dimension] = call.lses[p].shape[of_lse[dimension]] = 0;
      call.outs[p].data = call.lses[p].data = nullptr;
    }
    EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
    EXPECT_TRUE(call.unwritten());
  }
}

TEST(MergeLegal, TypesByDefault) {
  MergeCall call;
  call.add_lse();
  call.add_mask();
  call.args.out.dtype = call.args.lse.dtype = call.args.mask.dtype = call.outs[0].dtype = call.lses[1].dtype =
      FA_DTYPE_DEFAULT;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  EXPECT_FLOAT_EQ(call.out[0], 2.0f);
}

// [F63] [F64] [F65]
TEST(MergeLegal, StructuresOfOtherSizes) {
  struct Longer {
    fa_merge_args args;
    int64_t future[3];
  } longer;
  MergeCall call;
  longer.args = call.args;
  std::memset(longer.future, 0, sizeof longer.future);
  longer.args.struct_size = sizeof longer;
  fa_op *op = call.create();
  EXPECT_EQ(fa_merge(op, &longer.args), FA_OK) << fa_last_error();
  longer.future[2] = 1;
  EXPECT_EQ(fa_merge(op, &longer.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"fa_merge_args.struct_size is 320", "newer"}), "");
  call.args.struct_size = offsetof(fa_merge_args, lse);  // later fields must not be looked at
  std::memset(&call.args.lse, 0xa5, sizeof call.args - offsetof(fa_merge_args, lse));
  EXPECT_EQ(fa_merge(op, &call.args), FA_OK) << fa_last_error();
  fa_destroy(op);
  fa_merge_args_init(nullptr, sizeof(fa_merge_args));
}

TEST(MergeLegal, NoWorkspaceIsNeeded) {
  MergeCall call;
  call.add_lse();
  for (int p = 0; p < call.parts; ++p) call.outs[p].data = call.lses[p].data = nullptr;  // not looked at
  call.args.out.data = nullptr;
  fa_op *op = call.create();
  size_t bytes = 12345;
  EXPECT_EQ(fa_merge_workspace_size(op, &call.args, &bytes), FA_OK) << fa_last_error();
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(fa_merge_workspace_size(op, nullptr, &bytes), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args is NULL", "fa_merge_args_init"}), "");
  EXPECT_EQ(fa_merge_workspace_size(op, &call.args, nullptr), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(fa_merge(nullptr, &call.args), FA_ERROR_INVALID_ARGUMENT);
  fa_destroy(op);
}

// [F218]
TEST(MergeLegal, ArraysAreReadDuringTheCallAlone) {
  MergeCall call;
  fa_op *op = call.create();
  {
    const std::vector<fa_tensor> outs(call.outs, call.outs + call.parts), lses(call.lses, call.lses + call.parts);
    call.args.outs = outs.data(), call.args.lses = lses.data();
    EXPECT_EQ(fa_merge(op, &call.args), FA_OK) << fa_last_error();
    EXPECT_EQ(std::memcmp(outs.data(), call.outs, sizeof(fa_tensor) * call.parts), 0);
  }
  EXPECT_FLOAT_EQ(call.out[0], 2.0f);
  fa_destroy(op);
}

}  // namespace
}  // namespace api_test

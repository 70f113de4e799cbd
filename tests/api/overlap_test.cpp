// Outputs overlap nothing: a call is refused by name where addresses and strides alone show an overlap, and runs
// wherever tensors only interleave. Small layouts show which is which by enumerating their bytes.
#include <algorithm>
#include <cstdio>
#include <random>
#include <set>

#include "call.h"

namespace api_test {
namespace {

// ---- arrays and tensors within a written tensor

struct Array {
  const char *name;
  int entries;
  void (*give)(Call &, const int32_t *);
};

// clang-format off
const Array arrays[] = {
    {"cu_seqlens_q", 3, [](Call &c, const int32_t *at) { c.pack_q(); c.args.cu_seqlens_q = at; }},
    {"cu_seqlens_k", 3, [](Call &c, const int32_t *at) { c.pack_k(); c.args.cu_seqlens_k = at; }},
    {"seqused_q", 2, [](Call &c, const int32_t *at) { c.args.seqused_q = at; }},
    {"seqused_k", 2, [](Call &c, const int32_t *at) { c.args.seqused_k = at; }},
    {"leftpad_k", 2, [](Call &c, const int32_t *at) { c.args.leftpad_k = at; }},
    {"kv_batch_idx", 2, [](Call &c, const int32_t *at) { c.args.kv_batch_idx = at; }},
    {"q_offset", 2, [](Call &c, const int32_t *at) { c.args.q_offset = at; }},
};
// clang-format on

TEST(OverlapArrays, RunBeforeOutAndAreRefusedFromTheirLastEntryOn) {
  for (const Array &array : arrays) {
    Call call;
    int32_t memory[8 + std::size(call.out)] = {};  // out behind 8 integers; all 0, which every array may be
    call.args.out.data = memory + 8;
    array.give(call, memory + 8 - array.entries);
    EXPECT_EQ(call.run(), FA_OK) << array.name << ": " << fa_last_error();
    array.give(call, memory + 9 - array.entries);
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT) << array.name;
    EXPECT_EQ(missing_words(fa_last_error(), {"args.out overlaps args." + std::string(array.name), "nothing else"}),
              "");
  }
}

TEST(OverlapArrays, AreRefusedWithinLseAndWorkspace) {
  Call call;
  call.add_lse();
  call.args.seqused_k = reinterpret_cast<int32_t *>(call.lse + 23);
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.lse overlaps args.seqused_k"}), "");
  call.args.workspace = call.workspace;
  call.args.workspace_size = sizeof call.workspace;
  call.args.seqused_k = reinterpret_cast<int32_t *>(call.workspace + sizeof call.workspace - 8);
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.workspace overlaps args.seqused_k"}), "");
}

/// Rows of 8 elements with 2 of nothing behind each.
struct Gapped {
  float memory[24][10] = {};

  explicit Gapped(Call *call) {
    fa_tensor &out = call->args.out;
    out.data = memory;
    out.stride[2] = 10;
    out.stride[1] = 4 * out.stride[2];
    out.stride[0] = 3 * out.stride[1];
  }
};

TEST(OverlapArrays, RunInGaps) {
  Call call;
  Gapped out(&call);
  auto *gap = reinterpret_cast<int32_t *>(out.memory[7] + 8);
  call.args.seqused_q = gap;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  for (const int32_t *at : {gap + 1, gap - 1}) {  // an entry in the gap, one in a row
    call.args.seqused_q = at;
    EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(missing_words(fa_last_error(), {"args.out overlaps args.seqused_q"}), "");
  }
}

TEST(OverlapTensors, AreRefusedAcrossARowFromGapToGap) {
  Call call;
  Gapped out(&call);
  fa_tensor_init(&call.args.bias, out.memory[7] + 8, FA_F32, 1, 1, 3,
                 4);  // of 12 elements the first and last are in gaps
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.out overlaps args.bias"}), "");
}

// [F31]
TEST(OverlapTensors, RunWhereTheyInterleave) {
  Call call;
  float both[2 * Call::b * Call::sq * Call::hq * Call::d] = {};
  call.args.q.data = both;
  call.args.out.data = both + Call::d;  // each head of out behind that of q
  for (fa_tensor *tensor : {&call.args.q, &call.args.out})
    for (int i = 0; i < 3; ++i) tensor->stride[i] *= 2;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  call.args.out.data = both;  // in place, with gaps in both
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.out overlaps args.q"}), "");
}

// ---- elements of one tensor

struct Strides {
  const char *name;
  int64_t stride[4];  // of out, whose shape is (2, 3, 4, 8)
  const char *words;  // "" where it runs
};

const Strides own_strides[] = {
    {"contiguous", {96, 32, 8, 1}, ""},
    {"bhsd", {96, 8, 24, 1}, ""},
    {"reversed", {-96, -32, -8, -1}, ""},
    {"transposed", {1, 2, 6, 24}, ""},
    {"woven", {96, 32, 1, 4}, ""},
    {"woven_unevenly", {3, 2000, 200, 2}, ""},
    {"woven_together", {6, 2000, 200, 2}, "elements (0, 0, 0, 3) and (1, 0, 0, 0)"},
    {"a_row_short", {96, 31, 8, 1}, "elements (0, 0, 3, 7) and (0, 1, 0, 0)"},
    {"a_head_short", {84, 28, 7, 1}, "elements (0, 0, 0, 7) and (0, 0, 1, 0)"},
    {"a_batch_short", {95, 32, 8, 1}, "elements (0, 2, 3, 7) and (1, 0, 0, 0)"},
    {"alike", {96, 8, 8, 1}, "at the same address"},
    {"alike_backwards", {96, 8, -8, 1}, "at the same address"},
    {"far", {int64_t{1} << 59, int64_t{1} << 58, int64_t{1} << 57, 1}, "at the same address"},
};

TEST(OverlapItself, IsRefusedWithTheTwoElements) {
  for (const Strides &strides : own_strides) {
    Call call;
    std::copy(std::begin(strides.stride), std::end(strides.stride), call.args.out.stride);
    fa_op *op = call.create();
    size_t bytes = 0;
    const fa_status status = fa_forward_workspace_size(op, &call.args, &bytes);
    EXPECT_EQ(status, *strides.words ? FA_ERROR_INVALID_ARGUMENT : FA_OK) << strides.name << ": " << fa_last_error();
    if (*strides.words) {
      EXPECT_EQ(missing_words(fa_last_error(), {"args.out.stride", strides.words, "separate address"}), "");
    }
    fa_destroy(op);
  }
}

TEST(OverlapItself, IsRefusedInLseToo) {
  Call call;
  call.add_lse();
  call.args.lse.stride[1] = 2;  // heads of 3 rows
  EXPECT_EQ(call.run(), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(missing_words(fa_last_error(), {"args.lse.stride", "(0, 0, 2, 0) and (0, 1, 0, 0)"}), "");
}

// ---- any layout, against an enumeration

class Layouts {
 public:
  explicit Layouts(uint32_t seed) : random_(seed) {}

  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  /// Strides for a shape: those of a contiguous order of its dimensions, some a little more or less, or any.
  void stride(fa_tensor *t, int64_t most) {
    int order[4] = {0, 1, 2, 3};
    std::shuffle(std::begin(order), std::end(order), random_);
    const bool any = number(0, 3) == 0;
    int64_t next = 1;
    for (const int i : order) {
      t->stride[i] = any ? number(1, most) : std::max<int64_t>(1, next + number(0, 3) / 3 * number(-3, 3));
      next = t->stride[i] * t->shape[i];
      if (number(0, 3) == 0) t->stride[i] = -t->stride[i];
    }
  }

 private:
  std::mt19937 random_;
};

/// The places of a tensor's elements, counted from that at index 0; once for each.
std::vector<int64_t> places(const fa_tensor &t) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < t.shape[0]; ++i)
    for (int64_t j = 0; j < t.shape[1]; ++j)
      for (int64_t k = 0; k < t.shape[2]; ++k)
        for (int64_t l = 0; l < t.shape[3]; ++l)
          all.push_back(i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + l * t.stride[3]);
  return all;
}

// [F197]
TEST(OverlapItself, IsWhatAnEnumerationFinds) {
  Layouts layouts(13);
  fa_op *const op = Call().create();
  int refused = 0;
  const int calls = 30000;
  for (int call_number = 0; call_number < calls; ++call_number) {
    Call call;
    fa_tensor &out = call.args.out;
    for (int i = 0; i < 3; ++i) out.shape[i] = call.args.q.shape[i] = layouts.number(1, 4);
    call.args.k.shape[0] = call.args.v.shape[0] = out.shape[0];
    call.args.k.shape[2] = call.args.v.shape[2] = 1;
    layouts.stride(&out, 40);
    const std::vector<int64_t> all = places(out);
    const bool distinct = std::set<int64_t>(all.begin(), all.end()).size() == all.size();

    size_t bytes;
    ASSERT_EQ(fa_forward_workspace_size(op, &call.args, &bytes), distinct ? FA_OK : FA_ERROR_INVALID_ARGUMENT)
        << "shape " << testing::PrintToString(out.shape) << ", stride " << testing::PrintToString(out.stride) << ": "
        << fa_last_error();
    refused += !distinct;
  }
  fa_destroy(op);
  EXPECT_GT(refused, calls / 5);
  EXPECT_LT(refused, calls - calls / 5);
}

TEST(OverlapItself, NamesElementsThatAreInOnePlaceHoweverLargeTheTensor) {
  Layouts layouts(15);
  fa_op *const op = Call().create();
  int refused = 0;
  for (int call_number = 0; call_number < 10000; ++call_number) {
    Call call;
    fa_tensor &out = call.args.out;
    for (const int i : {0, 1, 2})
      out.shape[i] = call.args.q.shape[i] = layouts.number(1, int64_t{1} << layouts.number(0, 13));
    call.args.k.shape[0] = call.args.v.shape[0] = out.shape[0];
    call.args.k.shape[2] = call.args.v.shape[2] = 1;
    layouts.stride(&out, int64_t{1} << layouts.number(1, 45));

    size_t bytes;
    if (fa_forward_workspace_size(op, &call.args, &bytes) == FA_OK) continue;
    long long a[4], b[4];
    const char *text = std::strstr(fa_last_error(), "elements (");
    ASSERT_NE(text, nullptr) << fa_last_error();
    ASSERT_EQ(std::sscanf(text, "elements (%lld, %lld, %lld, %lld) and (%lld, %lld, %lld, %lld)", a, a + 1, a + 2,
                          a + 3, b, b + 1, b + 2, b + 3),
              8);
    int64_t way = 0;
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(a[i] >= 0 && a[i] < out.shape[i] && b[i] >= 0 && b[i] < out.shape[i]) << fa_last_error();
      way += (a[i] - b[i]) * out.stride[i];
    }
    ASSERT_TRUE(way == 0 && !std::equal(a, a + 4, b)) << fa_last_error();
    ++refused;
  }
  fa_destroy(op);
  EXPECT_GT(refused, 1000);
}

TEST(OverlapTensors, AreRefusedOnlyWhereBytesAreShared) {
  Layouts layouts(14);
  fa_op *const op = Call().create();
  int refused = 0, sharing = 0, apart = 0;
  const int calls = 30000;
  std::vector<float> memory(8192);
  for (int call_number = 0; call_number < calls; ++call_number) {
    Call call;
    fa_tensor &q = call.args.q, &out = call.args.out;
    for (int i = 0; i < 3; ++i) out.shape[i] = q.shape[i] = layouts.number(1, 3);
    call.args.k.shape[0] = call.args.v.shape[0] = out.shape[0];
    call.args.k.shape[2] = call.args.v.shape[2] = 1;
    layouts.stride(&q, 40);
    for (int64_t &stride : q.stride) stride *= 2;
    std::copy(std::begin(q.stride), std::end(q.stride), out.stride);
    if (layouts.number(0, 1)) layouts.stride(&out, 40);
    float *const middle = memory.data() + memory.size() / 2;
    q.data = middle;
    out.data = middle + layouts.number(-60, 60);

    std::vector<int64_t> of_q = places(q), of_out = places(out);
    std::set<int64_t> distinct(of_out.begin(), of_out.end());
    if (distinct.size() != of_out.size()) continue;
    for (int64_t &place : of_q) place -= static_cast<float *>(out.data) - middle;
    const bool shares =
        std::any_of(of_q.begin(), of_q.end(), [&](int64_t place) { return distinct.count(place) != 0; });

    const fa_status status = fa_forward(op, &call.args);
    ASSERT_TRUE(status == FA_OK || shares) << fa_last_error();
    sharing += shares;
    apart += !shares;
    refused += status != FA_OK;
  }
  fa_destroy(op);
  EXPECT_GT(apart, calls / 20);
  EXPECT_GT(refused, sharing / 2) << "of " << sharing << " that share memory";
}

}  // namespace
}  // namespace api_test

// fa.hpp: ownership, exceptions, tensors by value.
#include <gtest/gtest.h>

#include <cstring>
#include <fa.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

static_assert(!std::is_copy_constructible<fa::Op>::value, "an op has one owner");
static_assert(!std::is_copy_assignable<fa::Op>::value, "an op has one owner");
static_assert(std::is_nothrow_move_constructible<fa::Op>::value, "moving an op cannot fail");
static_assert(std::is_nothrow_move_assignable<fa::Op>::value, "moving an op cannot fail");

fa::Desc small_desc() {
  fa::Desc desc;
  desc.dtype_q = FA_F32;
  desc.head_dim = 2;
  desc.num_threads = 1;
  return desc;
}

TEST(Hpp, ComputesAnAttention) {
  const fa::Op op(small_desc());
  const std::vector<float> q = {0, 0}, k = {1, 2, 3, 4}, v = {1, 2, 3, 6};  // equal scores: the mean of the values
  std::vector<float> out(2);
  fa::ForwardArgs args;
  args.q = fa::tensor(q.data(), 1, 1, 1, 2);
  args.k = fa::tensor(k.data(), 1, 2, 1, 2);
  args.v = fa::strided(fa::tensor(v.data() + 2, 1, 2, 1, 2), 0, -2, 0, 1);
  args.out = fa::tensor(out.data(), 1, 1, 1, 2);
  op(args);
  EXPECT_FLOAT_EQ(out[0], 2);
  EXPECT_FLOAT_EQ(out[1], 4);
}

TEST(Hpp, ComputesGradients) {
  const fa::Op op(small_desc());
  const std::vector<float> q = {0, 0}, k = {1, 2, 3, 4}, v = {1, 2, 3, 6}, out = {2, 4}, lse = {0.6931472f},
                           dout = {1, 2};
  std::vector<float> dv(4);
  fa::BackwardArgs args;
  args.q = fa::tensor(q.data(), 1, 1, 1, 2);
  args.k = fa::tensor(k.data(), 1, 2, 1, 2);
  args.v = fa::tensor(v.data(), 1, 2, 1, 2);
  args.out = fa::tensor(out.data(), 1, 1, 1, 2);
  args.lse = fa::tensor(lse.data(), 1, 1, 1, 1);
  args.dout = fa::tensor(dout.data(), 1, 1, 1, 2);
  args.dv = fa::tensor(dv.data(), 1, 2, 1, 2);
  EXPECT_GT(op.backward_workspace_size(args), 0u);
  op.backward(args);
  for (const size_t n : {0, 1, 2, 3}) EXPECT_NEAR(dv[n], n % 2 ? 1 : 0.5, 1e-6);  // equal weights
  args.dv = fa::tensor(dv.data(), 1, 3, 1, 2);
  EXPECT_THROW(op.backward(args), fa::Error);
}

TEST(Hpp, MergesPartialResults) {
  const fa::Op op(small_desc());
  const std::vector<float> a = {0, 2}, b = {4, 4}, lse_a = {1}, lse_b = {1};  // equal weights
  const fa_tensor outs[] = {fa::tensor(a.data(), 1, 1, 1, 2), fa::tensor(b.data(), 1, 1, 1, 2)};
  const fa_tensor lses[] = {fa::tensor(lse_a.data(), 1), fa::tensor(lse_b.data(), 1)};
  std::vector<float> out(2);
  fa::MergeArgs args;
  args.outs = outs;
  args.lses = lses;
  args.num_parts = 2;
  args.out = fa::tensor(out.data(), 1, 1, 1, 2);
  EXPECT_EQ(op.merge_workspace_size(args), 0u);
  op.merge(args);
  EXPECT_FLOAT_EQ(out[0], 2);
  EXPECT_FLOAT_EQ(out[1], 3);
  args.num_parts = 0;
  EXPECT_THROW(op.merge(args), fa::Error);
}

TEST(Hpp, AppendsToACache) {
  const fa::Op op(small_desc());
  const std::vector<float> k = {1, 2}, v = {3, 4};
  const std::vector<std::int64_t> slots = {2};
  std::vector<float> k_cache(8), v_cache(8);
  fa::AppendArgs args;
  args.k = fa::tensor(k.data(), 1, 1, 1, 2);
  args.v = fa::tensor(v.data(), 1, 1, 1, 2);
  args.k_cache = fa::tensor(k_cache.data(), 2, 2, 1, 2);
  args.v_cache = fa::tensor(v_cache.data(), 2, 2, 1, 2);
  args.slot_mapping = fa::tensor(slots.data(), 1);
  EXPECT_EQ(op.append_workspace_size(args), 0u);
  op.append(args);
  EXPECT_EQ(k_cache, (std::vector<float>{0, 0, 0, 0, 1, 2, 0, 0}));
  EXPECT_EQ(v_cache, (std::vector<float>{0, 0, 0, 0, 3, 4, 0, 0}));
  args.flags = 1;
  EXPECT_THROW(op.append(args), fa::Error);
}

TEST(Hpp, ErrorsAreExceptionsWithStatusAndText) {
  fa::Desc desc = small_desc();
  desc.head_dim = 1000;
  try {
    const fa::Op op(desc);
    FAIL() << "no exception";
  } catch (const fa::Error &error) {
    EXPECT_EQ(error.status(), FA_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(error.what(), "desc.head_dim is 1000"), nullptr) << error.what();
  }
  const fa::Op op(small_desc());
  EXPECT_THROW(op(fa::ForwardArgs()), fa::Error);
  EXPECT_THROW(op.workspace_size(fa::ForwardArgs()), fa::Error);
  EXPECT_NO_THROW(fa::check(FA_OK));
}

TEST(Hpp, OpsMove) {
  fa::Op first(small_desc());
  fa_op *const handle = first.get();
  const std::string kernel = first.kernel();
  EXPECT_NE(kernel, "");
  fa::Op second(std::move(first));
  EXPECT_EQ(second.get(), handle);
  fa::Op third(small_desc());
  third = std::move(second);
  EXPECT_EQ(third.get(), handle);
  EXPECT_EQ(third.kernel(), kernel);
}

TEST(Hpp, TensorsTakeTheirTypeFromThePointer) {
  const std::int32_t table[2] = {0, 1};
  const bool mask[1] = {true};
  EXPECT_EQ(fa::tensor(table, 2).dtype, FA_I32);
  EXPECT_EQ(fa::tensor(mask, 1).dtype, FA_BOOL);
  EXPECT_EQ(fa::tensor(nullptr, FA_BF16, 1, 2, 3, 4).stride[0], 24);
}

}  // namespace

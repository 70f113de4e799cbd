// Seeded random calls: fields take values from the edges of their ranges and beyond, sizes and strides are garbage half
// of the time. The library always returns a status, and computes only when the call describes memory that is there.
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <random>

#include "call.h"
#include "merge_call.h"
#include "reference/caller.h"
#include "schema/schema.h"

namespace api_test {
namespace {

class Fuzzer {
 public:
  explicit Fuzzer(uint32_t seed) : random_(seed) {}

  bool chance(int percent) { return std::uniform_int_distribution<>(0, 99)(random_) < percent; }

  int64_t pick(std::initializer_list<int64_t> values) {
    return values.begin()[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random_)];
  }

  /// A number near an edge of something.
  int64_t number() {
    const int64_t near = std::uniform_int_distribution<int64_t>(-2, 9)(random_);
    return near + pick({0, 0, 0, 0, 0, 64, 255, 576, 1024, INT32_MAX, INT32_MIN, 1LL << 32, 1LL << 48, INT64_MAX - 9,
                        INT64_MIN + 2});
  }

  void mutate(fa_desc *desc) {
    if (chance(20)) desc->device = pick({0, 1, 2, number32()});
    if (chance(10)) desc->device_index = number32();
    if (chance(30)) desc->dtype_q = pick({1, 2, 3, number32()});
    if (chance(30)) desc->dtype_kv = pick({0, 1, 2, 3, 7, 8, 9, 10, 11, number32()});
    if (chance(20)) desc->dtype_v = pick({0, 1, 7, 9, 10, 12, 13, number32()});
    if (chance(10)) desc->dtype_k_rope = pick({0, 1, 2, 3, number32()});
    if (chance(10)) desc->head_dim_rope = chance(50) ? 4 : number();
    if (chance(30)) desc->dtype_out = pick({0, 1, 2, 3, number32()});
    if (chance(40)) desc->mask = pick({0, 1, 2, number32()});
    if (chance(5)) desc->head_dim = number();
    if (chance(5)) desc->head_dim_v = number();
    if (chance(20)) desc->window_left = number();
    if (chance(20)) desc->window_right = number();
    if (chance(20)) desc->attention_chunk = number();
    if (chance(20)) desc->softmax_scale = real();
    if (chance(20)) desc->softcap = real();
    if (chance(20)) desc->flags = chance(80) ? random_() % 32 : random_();
    if (chance(20)) desc->num_threads = pick({0, 1, 2, 3, number32()});
    if (chance(5)) desc->struct_size = static_cast<size_t>(number());
  }

  void mutate(Call *call) {
    fa_forward_args &args = call->args;
    if (chance(20)) call->pack_q();
    if (chance(20)) call->pack_k();
    if (chance(20)) call->page();
    if (chance(20)) call->quantise(pick({7, 8, 9, 10, 11}));
    if (chance(20)) call->divide();
    if (chance(30)) call->add_lse();
    if (chance(30)) call->add_bias();
    if (chance(30)) call->add_mask();
    if (chance(30)) call->add_slopes();
    if (chance(30)) call->add_sinks();
    if (chance(15)) call->add_tree();
    if (chance(15)) args.seqused_q = call->used_q;
    if (chance(15)) args.seqused_k = call->used_k;
    if (chance(15)) args.leftpad_k = call->leftpad;
    if (chance(15)) args.kv_batch_idx = call->batch_idx;
    if (chance(15)) args.q_offset = call->offset;
    if (chance(10)) args.num_seqs = number();
    if (chance(20)) args.max_seqlen_q = number();
    if (chance(20)) args.max_seqlen_k = number();
    if (chance(20)) args.num_splits = pick({0, 1, 2, 3, 7, number32()});
    if (chance(2)) args.reserved = number32();
    if (chance(5)) args.struct_size = static_cast<size_t>(number());
    for (const auto &field : fa::schema::Fields<fa_forward_args>::tensors)
      if (chance(15)) mutate(&(args.*field.field));
  }

  void mutate(MergeCall *call) {
    fa_merge_args &args = call->args;
    if (chance(50)) call->add_lse();
    if (chance(30)) call->add_mask();
    if (chance(30)) args.num_parts = pick({1, 2, FA_MAX_PARTS, FA_MAX_PARTS + 1, number32()});
    if (chance(20)) args.out = call->outs[pick({0, 0, 1})];
    if (chance(20)) args.lse = call->lses[pick({0, 0, 1})];
    if (chance(20)) args.flags = chance(80) ? random_() % 4 : random_();
    if (chance(2)) args.outs = nullptr;
    if (chance(2)) args.lses = nullptr;
    if (chance(5)) args.struct_size = static_cast<size_t>(number());
    for (int p = 0; p < MergeCall::parts; ++p) {
      if (chance(5)) mutate(&call->outs[p]);
      if (chance(5)) mutate(&call->lses[p]);
    }
    for (const auto &field : fa::schema::Fields<fa_merge_args>::tensors)
      if (chance(10)) mutate(&(args.*field.field));
  }

 private:
  int32_t number32() { return static_cast<int32_t>(number()); }

  float real() {
    const float values[] = {0, -0.0f, 1, -1, 0.125f, 1e-45f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN};
    return values[random_() % std::size(values)];
  }

  void mutate(fa_tensor *tensor) {
    const auto axis = [&] { return random_() % 4; };
    if (chance(50)) tensor->shape[axis()] = chance(50) ? number() : pick({0, 1, 2, 3, 4, 8});
    if (chance(50)) tensor->stride[axis()] = chance(50) ? number() : pick({-1, 0, 1, 2, 8, 16});
    if (chance(10)) tensor->dtype = pick({0, 1, 2, 3, 4, 5, number32()});
    if (chance(5)) tensor->reserved = number32();
    if (chance(5)) tensor->data = nullptr;
  }

  std::mt19937 random_;
};

/// True when every element that the tensor describes is within the memory, so that a call may follow its strides.
bool inside(const fa_tensor &tensor, const void *memory, size_t size) {
  if (!tensor.data) return true;
  const double bytes = tensor.dtype == FA_BOOL ? 1 : tensor.dtype == FA_F16 || tensor.dtype == FA_BF16 ? 2 : 4;
  double first = 0, last = bytes;
  for (int i = 0; i < 4; ++i) {
    if (tensor.shape[i] <= 0) return true;
    const double way = (static_cast<double>(tensor.shape[i]) - 1) * static_cast<double>(tensor.stride[i]) * bytes;
    (way < 0 ? first : last) += way;
  }
  return tensor.data == memory && first >= 0 && last <= static_cast<double>(size);
}

/// True when the call touches nothing but the fixture's memory, and little of it.
bool may_run(const Call &call) {
  const fa_forward_args &args = call.args;
  const bool arrays_reach = args.q.shape[0] <= Call::b && args.num_seqs <= Call::b;
  const bool short_keys = args.k.shape[1] <= 64 && args.block_table.shape[1] <= 64;
  return arrays_reach && short_keys && inside(args.q, call.q, sizeof call.q) && inside(args.k, call.k, sizeof call.k) &&
         inside(args.v, call.v, sizeof call.v) && inside(args.out, call.out, sizeof call.out) &&
         inside(args.lse, call.lse, sizeof call.lse) && inside(args.bias, call.bias, sizeof call.bias) &&
         inside(args.mask, call.mask, sizeof call.mask) && inside(args.alibi_slopes, call.slopes, sizeof call.slopes) &&
         inside(args.sinks, call.sinks, sizeof call.sinks) && inside(args.block_table, call.table, sizeof call.table) &&
         inside(args.k_scale, call.scales, sizeof call.scales) &&
         inside(args.v_scale, call.scales, sizeof call.scales) &&
         inside(args.k_zero, call.scales, sizeof call.scales) && inside(args.v_zero, call.scales, sizeof call.scales) &&
         inside(args.tree_mask, call.tree, sizeof call.tree) &&
         inside(args.tree_depth, call.depths, sizeof call.depths) && inside(args.k_rope, call.rope, sizeof call.rope);
}

bool may_run(const MergeCall &call) {
  const fa_merge_args &args = call.args;
  bool all = inside(args.mask, call.mask, sizeof call.mask);
  const auto check = [&](const fa_tensor &out, const fa_tensor &lse, int part) {
    const bool own = part == MergeCall::parts;
    all = all && inside(out, own ? call.out : call.out_of[part], sizeof call.out) &&
          inside(lse, own ? call.lse : call.lse_of[part], sizeof call.lse);
  };
  for (int p = 0; p < FA_MAX_PARTS; ++p) check(call.outs[p], call.lses[p], p % MergeCall::parts);
  const auto part_of = [&](const void *data, const auto &memory) {
    for (int p = 0; p < MergeCall::parts; ++p)
      if (data == memory[p]) return p;
    return MergeCall::parts;
  };
  check(args.out, {}, part_of(args.out.data, call.out_of));
  check({}, args.lse, part_of(args.lse.data, call.lse_of));
  return all;
}

// [F54] [F195] [F196]
TEST(Fuzz, WhateverComesIsMerged) {
  const char *given = std::getenv("FA_FUZZ_SEED");
  const uint32_t first = given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : 1;
  const uint32_t count = given ? 1 : 20000;
  int sized = 0, ran = 0;
  std::vector<std::string> environments = reference::float_environments();
  environments.push_back("");
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("repeat: FA_FUZZ_SEED=" + std::to_string(seed));
    Fuzzer fuzzer(seed);
    MergeCall call;
    fuzzer.mutate(&call);
    if (fuzzer.chance(20)) call.desc.dtype_out = static_cast<int32_t>(fuzzer.pick({FA_F32, FA_F16}));
    fa_op *op = call.create();
    ASSERT_NE(op, nullptr);
    size_t bytes = 1;
    fa_status size_status = FA_OK, status = FA_OK;
    std::string changed;
    const bool runs = may_run(call);
    {
      const reference::Caller caller(environments[seed % environments.size()]);
      size_status = fa_merge_workspace_size(op, &call.args, &bytes);
      if (runs) status = fa_merge(op, &call.args);
      changed = caller.changed();
    }
    ASSERT_EQ(changed, "") << environments[seed % environments.size()];
    if (runs) {
      ran += status == FA_OK;
      ASSERT_TRUE(status != FA_OK || size_status == FA_OK) << "a call that runs has a size";
      if (status != FA_OK) {
        ASSERT_STRNE(fa_last_error(), "");
      }
    }
    ASSERT_TRUE(size_status != FA_OK || bytes == 0);
    sized += size_status == FA_OK;
    fa_destroy(op);
  }
  RecordProperty("sized", sized);
  RecordProperty("ran", ran);
  if (!given) {
    EXPECT_GT(sized, 2000) << "the fuzzer changes too much to reach anything";
    EXPECT_GT(ran, 2000);
    EXPECT_LT(ran, static_cast<int>(count - 2000)) << "and this one too little";
  }
}

// [F54] [F195] [F196]
TEST(Fuzz, WhateverComesIsAnswered) {
  const char *given = std::getenv("FA_FUZZ_SEED");
  const uint32_t first = given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : 1;
  const uint32_t count = given ? 1 : 20000;
  int created = 0, sized = 0, ran = 0;
  std::string changed;
  std::vector<std::string> environments = reference::float_environments();
  environments.push_back("");
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("repeat: FA_FUZZ_SEED=" + std::to_string(seed));
    Fuzzer fuzzer(seed);
    Call call;
    fuzzer.mutate(&call);
    if (fuzzer.chance(50)) fuzzer.mutate(&call.desc);

    fa_op *op = nullptr;
    const std::string &environment = environments[seed % environments.size()];
    const auto by_caller = [&](auto function) {
      const reference::Caller caller(environment);
      const fa_status status = function();
      changed = caller.changed();
      return status;
    };
    const fa_status status = by_caller([&] { return fa_create(&call.desc, &op); });
    ASSERT_EQ(changed, "") << environment;
    ASSERT_EQ(status == FA_OK, op != nullptr);
    if (status != FA_OK) {
      ASSERT_STRNE(fa_last_error(), "");
      continue;
    }
    ++created;
    size_t bytes = 0;
    const fa_status size_status = by_caller([&] { return fa_forward_workspace_size(op, &call.args, &bytes); });
    ASSERT_EQ(changed, "") << environment;
    sized += size_status == FA_OK;
    if (may_run(call)) {
      if (size_status == FA_OK && bytes <= sizeof call.workspace && fuzzer.chance(50)) {
        call.args.workspace = call.workspace;
        call.args.workspace_size = bytes;
      }
      const fa_status run_status = by_caller([&] { return fa_forward(op, &call.args); });
      ASSERT_EQ(changed, "") << environment;
      ran += run_status == FA_OK;
      ASSERT_TRUE(run_status != FA_OK || size_status == FA_OK) << "a call that runs has a size";
    }
    fa_destroy(op);
  }
  RecordProperty("created", created);
  RecordProperty("sized", sized);
  RecordProperty("ran", ran);
  if (!given) {
    EXPECT_GT(created, 5000) << "the fuzzer changes too much to reach anything";
    EXPECT_GT(sized, 500);
    EXPECT_GT(ran, 500);
  }
}

}  // namespace
}  // namespace api_test

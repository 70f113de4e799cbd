// The outputs of a call against everything else that it has: each pair, by either end.
#include "call.h"

namespace api_test {
namespace {

/// A tensor of the call by its name in errors.
struct Named {
  const char *name;
  fa_tensor fa_forward_args::*tensor;
};

constexpr Named inputs[] = {
    {"args.q", &fa_forward_args::q},         {"args.k", &fa_forward_args::k},
    {"args.v", &fa_forward_args::v},         {"args.bias", &fa_forward_args::bias},
    {"args.mask", &fa_forward_args::mask},   {"args.alibi_slopes", &fa_forward_args::alibi_slopes},
    {"args.sinks", &fa_forward_args::sinks}, {"args.block_table", &fa_forward_args::block_table}};

/// The call is refused while the tensor begins at `place`, which is in the written tensor.
void expect_refused(const char *written, const char *name, Call *call, char *place, fa_tensor *tensor) {
  void *const own = tensor->data;
  tensor->data = place;
  EXPECT_EQ(call->run(), FA_ERROR_INVALID_ARGUMENT) << written << " and " << name;
  EXPECT_EQ(missing_words(fa_last_error(), {std::string(written) + " overlaps " + name}), "");
  tensor->data = own;
}

/// A call with every tensor that may be given, each in separate memory.
struct Full : Call {
  Full() {
    add_lse();
    add_bias();
    add_mask();
    add_slopes();
    add_sinks();
    page();
    args.seqused_k = used_k;
    args.max_seqlen_k = sk;
  }
};

TEST(Overlap, OfEachTensorIsServedApart) {
  Full call;
  EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
}

// [F197]
TEST(Overlap, OfOutOrLseWithEachInputIsRefused) {
  for (const Named &input : inputs) {
    Full call;
    fa_tensor *const tensor = &(call.args.*input.tensor);
    expect_refused("args.out", input.name, &call, reinterpret_cast<char *>(call.out), tensor);
    expect_refused("args.out", input.name, &call, reinterpret_cast<char *>(std::end(call.out)) - 4, tensor);
    expect_refused("args.lse", input.name, &call, reinterpret_cast<char *>(call.lse), tensor);
    expect_refused("args.lse", input.name, &call, reinterpret_cast<char *>(std::end(call.lse)) - 4, tensor);
  }
}

TEST(Overlap, OfOutWithLseIsRefused) {
  Full call;
  expect_refused("args.out", "args.lse", &call, reinterpret_cast<char *>(std::end(call.out)) - 4, &call.args.lse);
}

// [F197]
TEST(Overlap, OfTheWorkspaceWithEachTensorIsRefused) {
  for (const Named &input : inputs) {
    Full call;
    call.args.workspace = call.workspace;
    call.args.workspace_size = sizeof call.workspace;
    expect_refused("args.workspace", input.name, &call, call.workspace, &(call.args.*input.tensor));
    expect_refused("args.workspace", input.name, &call, std::end(call.workspace) - 4, &(call.args.*input.tensor));
  }
}

/// Where one ends another may begin.
TEST(Overlap, OfNeighboursIsNone) {
  alignas(64) static float all[3 * Call::b * Call::sq * Call::hq * Call::d] = {};
  constexpr int64_t size = Call::b * Call::sq * Call::hq * Call::d;
  Call call;
  for (const int64_t first : {0, 2}) {
    call.args.out.data = all + size;
    call.args.q.data = all + first * size;
    EXPECT_EQ(call.run(), FA_OK) << fa_last_error();
  }
}

}  // namespace
}  // namespace api_test

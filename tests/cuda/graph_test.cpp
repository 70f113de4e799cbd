// CUDA graphs: captured once, replayed while the contents of arrays change.
#include "cuda/graph.h"

namespace cuda_test {
namespace {

/// A workspace of a call, in device memory.
class Workspace {
 public:
  Workspace(const Op &op, fa_forward_args *args) {
    EXPECT_EQ(fa_forward_workspace_size(op.op, args, &args->workspace_size), FA_OK) << fa_last_error();
    if (args->workspace_size == 0) return;
    EXPECT_EQ(call("cuMemAlloc_v2", &address_, args->workspace_size), CUDA_SUCCESS);
    args->workspace = reinterpret_cast<void *>(address_);
  }
  ~Workspace() {
    if (address_ != 0) call("cuMemFree_v2", address_);
  }
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;

 private:
  CUdeviceptr address_ = 0;
};

/// Refills every query, key and value, as the instance poisons those that its own lengths leave out; and no outputs.
void renew(Call *own) {
  Instance &instance = own->instance;
  instance.q.randomise(7, 1, 1);
  instance.k.randomise(7, 2, 1);
  instance.v.randomise(7, 3, 1);
  instance.clear_outputs();
  for (const reference::Tensor *tensor : {&instance.q, &instance.k, &instance.v, &instance.out, &instance.lse})
    own->update(*tensor);
}

using Numbers = std::vector<int32_t>;

/// Captures a case's call, and replays it with each of the lists, once `change` has put its numbers into the arrays.
void replay(const Case &c, const std::vector<Numbers> &lists, void (*change)(Call *, const Numbers &)) {
  const InContext in;
  const Stream stream;
  Call own(c);
  const Op op(desc_of(c));
  own.args.stream = stream.handle;
  const Workspace workspace(op, &own.args);
  const Graph graph(op, own.args);
  ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
  const size_t rotations = (c.flags & FA_FLAG_HADAMARD_K ? 1 : 0) + (c.flags & FA_FLAG_HADAMARD_V ? 1 : 0);
  EXPECT_EQ(graph.nodes, (c.splits > 1 ? 2 : 1) + rotations);
  for (const Numbers &list : lists) {
    change(&own, list);
    renew(&own);
    ASSERT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(own.failure(), "") << testing::PrintToString(list);
  }
}

// [F95] [F134]
TEST(Graphs, ReplayFollowsLengths) {
  for (const auto &[splits, flags] :
       {std::pair(0, 0), {3, 0}, {3, FA_FLAG_DEVICE_POINTERS}, {3, FA_FLAG_HADAMARD_K | FA_FLAG_HADAMARD_V}}) {
    Case c = small_case();
    c.q = splits ? FA_F32 : FA_F16, c.flags = uint32_t(flags);
    c.b = 3, c.splits = splits, c.used_k = c.used_q = true, c.page = 16, c.sk = 96;
    const std::vector<Numbers> lengths = {
        {5, 1, 3, 96, 40, 17}, {0, 0, 0, 96, 96, 96}, {5, 5, 5, 0, 0, 0}, {1, 2, 0, 1, 95, 33}, {5, 5, 5, 96, 96, 96}};
    replay(c, lengths, [](Call *own, const Numbers &list) {
      Instance &instance = own->instance;
      for (size_t b = 0; b < 3; ++b) instance.seqused_q[b] = list[b], instance.seqused_k[b] = list[3 + b];
      instance.block_table.each([&](int64_t i, int64_t j, int64_t, int64_t, int64_t) {  // every page is one again, too
        instance.block_table.set(i, j, 0, 0, double((i * instance.block_table.shape()[1] + j + list[3]) % 18));
      });
      own->update(instance.block_table);
      own->update(instance.seqused_q);
      own->update(instance.seqused_k);
    });
  }
}

/// The ends of three packed sequences: of q, then of k.
void set_offsets(Call *own, const Numbers &list) {
  Instance &instance = own->instance;
  for (size_t b = 0; b < 3; ++b) instance.cu_seqlens_q[b + 1] = list[b], instance.cu_seqlens_k[b + 1] = list[3 + b];
  own->update(instance.cu_seqlens_q);
  own->update(instance.cu_seqlens_k);
}

TEST(Graphs, ReplayFollowsCumulativeLengths) {
  for (const int32_t splits : {0, 3}) {
    Case c = small_case();
    c.q = splits ? FA_F16 : FA_F32;
    c.b = 3, c.sk = splits ? 300 : 90, c.splits = splits, c.cu_q = c.cu_k = true, c.seed = 4;
    const Instance built(c);
    ASSERT_GE(built.cu_seqlens_q[3], 6);  // rows that the lists below count on
    ASSERT_GE(built.cu_seqlens_k[3], 100);
    const std::vector<Numbers> offsets = {
        {1, 3, 6, 10, 40, 100}, {0, 0, 0, 0, 0, 0}, {0, 5, 5, 7, 7, 90}, {5, 5, 6, 0, 64, 64}, {2, 4, 5, 90, 90, 91}};
    replay(c, offsets, set_offsets);
  }
}

/// Where a kernel takes tensor maps, the graph has its own.
TEST(Graphs, KeepTensorMaps) {
  Case c = small_case();
  c.b = 3, c.sq = 130, c.sk = 200, c.hq = c.hkv = 2, c.d = 64, c.q = FA_F16, c.cu_q = c.cu_k = true, c.splits = 1;
  replay(c, {{40, 41, 140, 90, 90, 200}, {0, 64, 100, 7, 120, 190}}, set_offsets);
}

TEST(Graphs, WithoutAWorkspaceMemoryBelongsToTheGraph) {
  const InContext in;
  const Stream stream;
  for (const uint32_t flags : {uint32_t{0}, uint32_t{FA_FLAG_DEVICE_POINTERS}}) {
    Call own(split_case());
    fa_desc desc = desc_of(split_case());
    desc.flags |= flags;
    const Op op(desc);
    own.args.stream = stream.handle;
    const Graph graph(op, own.args);
    ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
    EXPECT_EQ(graph.nodes, 4u);  // allocate, two kernels, free
    for (int round = 0; round < 2; ++round) ASSERT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(own.failure(), "");
  }
}

TEST(Graphs, NothingIsLoadedInACapture) {
  const Op op(desc_of(small_case()));  // in the primary context
  const InContext in(0, InContext::own);
  const Stream stream;
  Call own(small_case());
  own.args.stream = stream.handle;
  {
    const Graph graph(op, own.args);
    EXPECT_EQ(graph.status, FA_ERROR_UNSUPPORTED);
    EXPECT_EQ(last_error_lacks({"args.stream", "captured", "create the op", "run it there once"}), "");
  }
  ASSERT_EQ(fa_forward(op.op, &own.args), FA_OK) << fa_last_error();
  const Graph graph(op, own.args);
  EXPECT_EQ(graph.status, FA_OK) << fa_last_error();
  EXPECT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(own.failure(), "");
}

TEST(Graphs, ACaptureElsewhereIsNotDisturbedByLoading) {
  Case c = small_case();
  c.q = FA_BF16;  // of an image that no other test here has loaded
  const InContext in(0, InContext::own);
  const Stream stream;
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream.handle, 0), CUDA_SUCCESS);
  const Op op(desc_of(c));
  EXPECT_EQ(op.status, FA_OK) << fa_last_error();
  CUgraph graph = nullptr;
  EXPECT_EQ(call("cuStreamEndCapture", stream.handle, &graph), CUDA_SUCCESS);
  call("cuGraphDestroy", graph);
}

/// A thread's capture mode is its own, also after libfa has loaded kernels during captures elsewhere.
TEST(Graphs, LoadingLeavesTheThreadsCaptureModeAlone) {
  for (const int set : {0, 1, 2}) {  // global, of the thread, relaxed
    const InContext in(0, InContext::own);
    int mode = set;
    ASSERT_EQ(call("cuThreadExchangeStreamCaptureMode", &mode), CUDA_SUCCESS);
    const int before = mode;
    const Op op(desc_of(small_case()));
    EXPECT_EQ(op.status, FA_OK) << fa_last_error();
    mode = before;
    ASSERT_EQ(call("cuThreadExchangeStreamCaptureMode", &mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, set);
  }
}

}  // namespace
}  // namespace cuda_test

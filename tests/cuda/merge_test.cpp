// fa_merge on a GPU: where its tensors may be, captures, and its log. Results are those of
// tests/engine/merge.cpp.
#include "reference/merge.h"

#include "cuda/graph.h"
#include "reference/gpu.h"

namespace cuda_test {
namespace {

using reference::compare;
using reference::MergeCase;
using reference::merged;
using reference::MergeInstance;

/// Memory of the tests is the GPU's, too, for the life of the object.
class Shared {
 public:
  Shared() { reference::share_memory(true); }
  ~Shared() { reference::share_memory(false); }
};

MergeCase three_parts() {
  MergeCase c;
  c.parts = {FA_F32, FA_BF16, FA_F32};
  return c;
}

fa_desc on(const MergeInstance &instance, fa_device device) {
  fa_desc desc = instance.desc;
  desc.device = device;
  return desc;
}

/// The arrays of tensors are read when the call is captured, and the tensors' contents when it is replayed.
// [F218]
TEST(Merges, AreCapturedAsOneLaunch) {
  const InContext in;
  const Shared shared;
  const Stream stream;
  const MergeInstance instance(three_parts());
  const Op op(on(instance, FA_DEVICE_CUDA));
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  fa_merge_args args = instance.args;
  args.stream = stream.handle;
  ASSERT_EQ(fa_merge(op.op, &args), FA_OK) << fa_last_error();  // loads the kernel
  std::vector<fa_tensor> outs(args.outs, args.outs + 3), lses(args.lses, args.lses + 3);
  args.outs = outs.data(), args.lses = lses.data();
  const Graph graph(op, args);
  ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
  EXPECT_EQ(graph.nodes, 1u);
  outs.assign(3, {}), lses.assign(3, {});
  for (const uint64_t seed : {7, 8}) {
    for (size_t p = 0; p < 3; ++p) instance.outs[p].randomise(seed, p, 1), instance.lses[p].randomise(seed, 10 + p, 2);
    ASSERT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
    ASSERT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(compare(instance, merged(instance.desc, instance.args)), "") << seed;
  }
}

TEST(Merges, FollowTheirMemory) {
  const InContext in;
  const MergeInstance host(three_parts());
  const Op gpu(on(host, FA_DEVICE_CUDA)), either(on(host, FA_DEVICE_AUTO));
  size_t bytes = 1;
  EXPECT_EQ(fa_merge_workspace_size(either.op, &host.args, &bytes), FA_OK) << fa_last_error();
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(fa_merge(gpu.op, &host.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.out", "host", "device 0", "cuMemHostRegister", "FA_DEVICE_AUTO"}), "");
  const Log log;
  EXPECT_EQ(fa_merge(either.op, &host.args), FA_OK) << fa_last_error();
  EXPECT_EQ(compare(host, merged(host.desc, host.args)), "");
  EXPECT_NE(log.text.find("merge: the tensors are in memory of the host: cpu."), std::string::npos) << log.text;

  // A part alone in memory that the device does not reach is named.
  const Shared shared;
  const MergeInstance reached(three_parts());
  const std::vector<fa_tensor> all(reached.args.outs, reached.args.outs + 3);
  std::vector<fa_tensor> outs = all, lses(reached.args.lses, reached.args.lses + 3);
  fa_merge_args args = reached.args;
  args.outs = outs.data(), args.lses = lses.data();
  outs[2] = host.args.outs[2];
  EXPECT_EQ(fa_merge(gpu.op, &args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.outs[2] is 0x", "memory of the host"}), "");
  outs = all, lses[1] = host.args.lses[1];
  EXPECT_EQ(fa_merge(gpu.op, &args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.lses[1] is 0x", "memory of the host"}), "");
}

TEST(Merges, TheLogNamesTheKernel) {
  const InContext in;
  const Shared shared;
  const MergeInstance instance(three_parts());
  const Op op(on(instance, FA_DEVICE_AUTO));
  const Log log;
  EXPECT_EQ(fa_merge(op.op, &instance.args), FA_OK) << fa_last_error();
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
  EXPECT_EQ(compare(instance, merged(instance.desc, instance.args)), "");
  EXPECT_NE(log.text.find("merge: cuda." + arch_of(op) + ".merge fa_combine"), std::string::npos) << log.text;
}

}  // namespace
}  // namespace cuda_test

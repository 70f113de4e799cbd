// fa_append on a GPU: captures, places of its tensors, and its log. Results are those of
// tests/engine/append.cpp.
#include "reference/append.h"

#include "cuda/graph.h"
#include "reference/gpu.h"

namespace cuda_test {
namespace {

using reference::AppendCase;
using reference::AppendInstance;
using reference::difference;
using reference::ExpectedAppend;

/// Memory of the tests is the GPU's, too, for the life of the object.
class Shared {
 public:
  Shared() { reference::share_memory(true); }
  ~Shared() { reference::share_memory(false); }
};

AppendCase rotated_pages() {
  AppendCase c;
  c.addressing = reference::CacheAddressing::pages, c.lens = true, c.sn = 5, c.pairs = 16, c.hq = 4;
  return c;
}

AppendCase quantised_pages() {
  AppendCase c = rotated_pages();
  c.cache = FA_I8, c.v_cache = FA_U4, c.kscale = "f32:bsh:1", c.vscale = c.vzero = "f16:bsh:2", c.computed = true;
  return c;
}

fa_desc on(const AppendInstance &instance, fa_device device) {
  fa_desc desc = instance.desc;
  desc.device = device;
  return desc;
}

/// The contents of arrays and tensors are read when the graph is launched.
void replay(const AppendCase &c) {
  const InContext in;
  const Shared shared;
  const Stream stream;
  const AppendInstance instance(c);
  const Op op(on(instance, FA_DEVICE_CUDA));
  ASSERT_EQ(op.status, FA_OK) << fa_last_error();
  fa_append_args args = instance.args;
  args.stream = stream.handle;
  ASSERT_EQ(fa_append(op.op, &args), FA_OK) << fa_last_error();  // loads the kernel
  ASSERT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  const Graph graph(op, args);
  ASSERT_EQ(graph.status, FA_OK) << fa_last_error();
  EXPECT_EQ(graph.nodes, 1u);
  for (const int32_t held : {7, 30}) {
    for (const reference::Tensor *t : {&instance.k, &instance.v, &instance.q}) t->randomise(uint64_t(held), 1, 1);
    instance.cache_seqlens[0] = instance.cache_seqlens[1] = 0;  // within the tables
    instance.cache_seqlens[held % 2] = 1;
    const std::vector<char> before = instance.outputs();
    ASSERT_EQ(graph.launch(stream.handle), CUDA_SUCCESS);
    ASSERT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
    EXPECT_EQ(difference(instance, ExpectedAppend(instance.desc, instance.args), before), "") << held;
  }
}

// [F95] [F235] [F244]
TEST(Appends, AreCapturedAsOneLaunch) {
  replay(rotated_pages());
}
TEST(Appends, AreCapturedAsOneLaunchOfCodes) {
  replay(quantised_pages());
}

TEST(Appends, FollowTheirMemory) {
  const InContext in;
  const AppendInstance host(rotated_pages());
  const Op gpu(on(host, FA_DEVICE_CUDA)), either(on(host, FA_DEVICE_AUTO));
  size_t bytes = 1;
  EXPECT_EQ(fa_append_workspace_size(either.op, &host.args, &bytes), FA_OK) << fa_last_error();
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(fa_append(gpu.op, &host.args), FA_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_lacks({"args.k is 0x", "host", "device 0", "cuMemHostRegister", "FA_DEVICE_AUTO"}), "");
  const Log log;
  const std::vector<char> before = host.outputs();
  EXPECT_EQ(fa_append(either.op, &host.args), FA_OK) << fa_last_error();
  EXPECT_EQ(difference(host, ExpectedAppend(host.desc, host.args), before), "");
  EXPECT_NE(log.text.find("append: the tensors are in memory of the host: cpu."), std::string::npos) << log.text;
}

TEST(Appends, TheLogNamesTheKernel) {
  const InContext in;
  const Shared shared;
  const AppendInstance instance(rotated_pages());
  const Op op(on(instance, FA_DEVICE_AUTO));
  const Log log;
  const std::vector<char> before = instance.outputs();
  EXPECT_EQ(fa_append(op.op, &instance.args), FA_OK) << fa_last_error();
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
  EXPECT_EQ(difference(instance, ExpectedAppend(instance.desc, instance.args), before), "");
  EXPECT_NE(log.text.find("append: cuda." + arch_of(op) + ".append fa_combine"), std::string::npos) << log.text;
}

}  // namespace
}  // namespace cuda_test

// Values that streams write and wait for, batches of copies, and the linker: uses of a stream besides kernels.
#include <atomic>

#include "fixture.h"

namespace {

using namespace emulated;

TEST(StreamValues, AStreamWaitsForWhatAnotherOneWrites) {
  StreamHandle waits, writes;
  Array<unsigned> cells(std::vector<unsigned>(4, 0));
  constexpr unsigned equal = 1;
  ASSERT_EQ(call("cuStreamWaitValue32_v2", waits.handle, cells.address, 3u, equal), CUDA_SUCCESS);
  ASSERT_EQ(step(waits, cells.address, 1, 10, 0), CUDA_SUCCESS);
  ASSERT_EQ(call("cuStreamWriteValue32_v2", writes.handle, cells.address, 2u, 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", writes.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamQuery", waits.handle), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(call("cuStreamWriteValue32_v2", writes.handle, cells.address, 3u, 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", waits.handle), CUDA_SUCCESS);
  EXPECT_EQ(cells.values()[0], 30u);
}

TEST(StreamValues, Comparisons) {
  struct Case {
    uint64_t found, value;
    unsigned comparison;
    bool passes;
  };
  constexpr unsigned greater = 0, equal = 1, any_bit = 2, none = 3;
  const Case cases[] = {{5, 5, greater, true},     {6, 5, greater, true}, {4, 5, greater, false},
                        {2, ~0ull, greater, true},  // counters wrap
                        {5, 5, equal, true},       {6, 5, equal, false},  {6, 3, any_bit, true},
                        {4, 3, any_bit, false},    {4, 3, none, true},    {~0ull - 3, 3, none, false}};
  void *pinned = nullptr;
  start();
  ASSERT_EQ(call("cuMemHostAlloc", &pinned, size_t{8}, 0u), CUDA_SUCCESS);
  auto *cell = static_cast<std::atomic<uint64_t> *>(pinned);
  CUdeviceptr address = reinterpret_cast<CUdeviceptr>(pinned);
  for (const Case &one : cases)
    for (bool wide : {false, true}) {
      SCOPED_TRACE(std::to_string(one.found) + " against " + std::to_string(one.value));
      StreamHandle stream;
      *cell = one.found;
      CUresult waits = wide ? call("cuStreamWaitValue64_v2", stream.handle, address, one.value, one.comparison)
                            : call("cuStreamWaitValue32_v2", stream.handle, address, static_cast<uint32_t>(one.value),
                                   one.comparison);
      ASSERT_EQ(waits, CUDA_SUCCESS);
      if (!one.passes) {
        EXPECT_EQ(call("cuStreamQuery", stream.handle), CUDA_ERROR_NOT_READY);
        *cell = one.comparison == none ? 0 : one.value;
      }
      EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
    }
  EXPECT_EQ(call("cuMemFreeHost", pinned), CUDA_SUCCESS);
}

TEST(StreamValues, BatchesAndWrongCalls) {
  StreamHandle stream;
  Array<uint64_t> cells(std::vector<uint64_t>(2, 0));
  constexpr int wait_64 = 4, write_64 = 5;
  CudaBatchEntry entries[] = {{write_64, cells.address + 8, 1ull << 40, 0, 0, 0},
                              {wait_64, cells.address + 8, 1ull << 40, 1, 0, 0},
                              {write_64, cells.address, 77, 0, 0, 0}};
  EXPECT_EQ(call("cuStreamBatchMemOp_v2", stream.handle, 3u, &entries[0], 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(cells.values(), (std::vector<uint64_t>{77, 1ull << 40}));
  EXPECT_EQ(call("cuStreamWriteValue32_v2", stream.handle, cells.address + 2, 1u, 0u), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuStreamWriteValue32_v2", stream.handle, CUdeviceptr{4096}, 1u, 0u), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuStreamBatchMemOp_v2", stream.handle, 0u, &entries[0], 0u), CUDA_ERROR_INVALID_VALUE);
}

TEST(BatchCopies, AllAreDone) {
  StreamHandle stream;
  Array<unsigned> from({1, 2, 3, 4}), to({0, 0, 0, 0});
  CUdeviceptr targets[] = {to.address, to.address + 12}, sources[] = {from.address + 8, from.address};
  size_t bytes[] = {8, 4}, first[] = {0};
  CudaCopyAttributes attributes = {1, {}, {}, 0};
  EXPECT_EQ(call("cuMemcpyBatchAsync_v2", &targets[0], &sources[0], &bytes[0], size_t{2}, &attributes, &first[0],
                 size_t{1}, stream.handle),
            CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(to.values(), (std::vector<unsigned>{3, 4, 0, 1}));
  EXPECT_EQ(call("cuMemcpyBatchAsync_v2", &targets[0], &sources[0], &bytes[0], size_t{2}, &attributes, &first[0],
                 size_t{1}, CU_STREAM_LEGACY),
            CUDA_ERROR_INVALID_VALUE);
  size_t failed = 0;
  sources[1] = 4096;
  targets[1] = 8192;
  EXPECT_NE(call("cuMemcpyBatchAsync", &targets[0], &sources[0], &bytes[0], size_t{0}, &attributes, &first[0],
                 size_t{1}, &failed, stream.handle),
            CUDA_SUCCESS);
}

TEST(Linker, OnePtxTextGoesThrough) {
  start();
  void *state = nullptr, *image = nullptr;
  size_t bytes = 0;
  char log[256] = "";
  int options[] = {5, 6};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  std::string text = step_ptx();
  constexpr int cubin = 0, ptx = 1;
  ASSERT_EQ(call("cuLinkCreate_v2", 2u, &options[0], &values[0], &state), CUDA_SUCCESS);
  auto add = [&](int type, const std::string &data) {
    return call("cuLinkAddData_v2", state, type, static_cast<void *>(const_cast<char *>(data.c_str())), data.size() + 1,
                "step.ptx", 0u, static_cast<int *>(nullptr), static_cast<void **>(nullptr));
  };
  EXPECT_EQ(call("cuLinkComplete", state, &image, &bytes), CUDA_ERROR_INVALID_VALUE) << "nothing to link";
  EXPECT_EQ(add(cubin, text), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_NE(std::string(log).find("PTX text only"), std::string::npos) << log;
  EXPECT_EQ(add(ptx, "nonsense"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(add(ptx, text), CUDA_SUCCESS);
  EXPECT_EQ(add(ptx, text), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(call("cuLinkComplete", state, &image, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(bytes, text.size() + 1);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void *>(image)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLinkDestroy", state), CUDA_SUCCESS);
  EXPECT_EQ(call("cuModuleGetFunction", &function, module, "step"), CUDA_SUCCESS);
  EXPECT_EQ(call("cuModuleUnload", module), CUDA_SUCCESS);
  EXPECT_EQ(call("cuLinkDestroy", state), CUDA_ERROR_INVALID_HANDLE);
}

TEST(Unsupported, SaysSo) {
  start();
  char handle[64];
  EXPECT_EQ(call("cuIpcGetMemHandle", &handle[0], CUdeviceptr{0}), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(call("cuMulticastCreate", &handle[0], nullptr), CUDA_ERROR_NOT_SUPPORTED);
  const void *table = &handle;
  const CUuuid unknown = {};
  EXPECT_EQ(call("cuGetExportTable", &table, &unknown), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(table, nullptr);
}

}  // namespace

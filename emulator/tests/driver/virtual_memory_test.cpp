// Reserved addresses, memory that is made apart from them, and mappings between the two.
#include "fixture.h"

namespace {

using namespace emulated;

constexpr size_t unit = 2 << 20;

CudaMemoryProperties on_device() {
  CudaMemoryProperties properties = {};
  properties.allocation_type = 1;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return properties;
}

uint64_t make_memory(size_t bytes) {
  uint64_t handle = 0;
  CudaMemoryProperties properties = on_device();
  EXPECT_EQ(call("cuMemCreate", &handle, bytes, static_cast<const CudaMemoryProperties *>(&properties), cuuint64_t{0}),
            CUDA_SUCCESS);
  return handle;
}

CUdeviceptr reserve(size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_EQ(call("cuMemAddressReserve", &address, bytes, size_t{0}, CUdeviceptr{0}, cuuint64_t{0}), CUDA_SUCCESS);
  return address;
}

CUresult map(CUdeviceptr address, size_t bytes, uint64_t handle) {
  return call("cuMemMap", address, bytes, size_t{0}, handle, cuuint64_t{0});
}

CUresult give_access(CUdeviceptr address, size_t bytes, int flags = 3, int device = 0) {
  CudaAccess access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
  return call("cuMemSetAccess", address, bytes, static_cast<const CudaAccess *>(&access), size_t{1});
}

unsigned read(CUdeviceptr address) {
  unsigned value = 0;
  EXPECT_EQ(call("cuMemcpyDtoH_v2", static_cast<void *>(&value), address, sizeof value), CUDA_SUCCESS);
  return value;
}

size_t free_bytes() {
  size_t available = 0, total = 0;
  EXPECT_EQ(call("cuMemGetInfo_v2", &available, &total), CUDA_SUCCESS);
  return available;
}

/// As allocators do that grow: memory is mapped behind existing memory.
TEST(VirtualMemory, GrowsInPlace) {
  start();
  size_t before = free_bytes(), granularity = 0;
  CudaMemoryProperties properties = on_device();
  EXPECT_EQ(
      call("cuMemGetAllocationGranularity", &granularity, static_cast<const CudaMemoryProperties *>(&properties), 0),
      CUDA_SUCCESS);
  EXPECT_EQ(granularity, unit);
  CUdeviceptr base = reserve(4 * unit);
  uint64_t first = make_memory(unit), second = make_memory(unit);
  ASSERT_EQ(map(base, unit, first), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemsetD32_v2", base, 5u, size_t{4}), CUDA_ERROR_INVALID_VALUE) << "no access was given";
  ASSERT_EQ(give_access(base, unit), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemsetD32_v2", base, 5u, unit / 4), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemsetD32_v2", base, 5u, unit / 4 + 1), CUDA_ERROR_INVALID_VALUE) << "behind the mapped memory";
  ASSERT_EQ(map(base + unit, unit, second), CUDA_SUCCESS);
  ASSERT_EQ(give_access(base, 2 * unit), CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 2 * unit);
  EXPECT_EQ(call("cuMemsetD32_v2", base + unit - 64, 7u, size_t{32}), CUDA_SUCCESS) << "over the seam";
  StreamHandle stream;
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS) << "sets do not wait, and this stream does not wait for them";
  ASSERT_EQ(step(stream, base + unit - 64, 32, 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(read(base + unit - 68), 5u);
  EXPECT_EQ(read(base + unit - 4), 15u);
  EXPECT_EQ(read(base + unit + 60), 15u);
  EXPECT_EQ(call("cuMemRelease", first), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemRelease", second), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemAddressFree", base, 4 * unit), CUDA_ERROR_INVALID_VALUE) << "something is mapped";
  EXPECT_EQ(call("cuMemUnmap", base, 2 * unit), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(call("cuMemAddressFree", base, 4 * unit), CUDA_SUCCESS);
}

TEST(VirtualMemory, TwoMappingsShowTheSameBytes) {
  start();
  CUdeviceptr one = reserve(unit), other = reserve(unit);
  uint64_t memory = make_memory(unit), again = 0;
  ASSERT_EQ(map(one, unit, memory), CUDA_SUCCESS);
  ASSERT_EQ(map(other, unit, memory), CUDA_SUCCESS);
  ASSERT_EQ(give_access(one, unit), CUDA_SUCCESS);
  ASSERT_EQ(give_access(other, unit), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemsetD32_v2", one, 9u, size_t{4}), CUDA_SUCCESS);
  EXPECT_EQ(read(other), 9u);
  EXPECT_EQ(call("cuMemRetainAllocationHandle", &again, reinterpret_cast<void *>(other + 64)), CUDA_SUCCESS);
  EXPECT_EQ(again, memory);
  CudaMemoryProperties found = {};
  EXPECT_EQ(call("cuMemGetAllocationPropertiesFromHandle", &found, memory), CUDA_SUCCESS);
  EXPECT_EQ(found.location.id, 0);
  for (int i = 0; i < 2; i++) EXPECT_EQ(call("cuMemRelease", memory), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemRelease", memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemFree_v2", one), CUDA_ERROR_INVALID_VALUE);
  for (CUdeviceptr address : {one, other}) {
    EXPECT_EQ(call("cuMemUnmap", address, unit), CUDA_SUCCESS);
    EXPECT_EQ(call("cuMemAddressFree", address, unit), CUDA_SUCCESS);
  }
}

TEST(VirtualMemory, WrongCalls) {
  start();
  uint64_t handle = 0;
  CudaMemoryProperties properties = on_device();
  const CudaMemoryProperties *given = &properties;
  EXPECT_EQ(call("cuMemCreate", &handle, size_t{4096}, given, cuuint64_t{0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemCreate", &handle, size_t{1} << 50, given, cuuint64_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  properties.handle_types = 1;
  EXPECT_EQ(call("cuMemCreate", &handle, unit, given, cuuint64_t{0}), CUDA_ERROR_NOT_SUPPORTED);
  uint64_t memory = make_memory(unit);
  CUdeviceptr base = reserve(unit);
  EXPECT_EQ(map(base + 4096, unit, memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(base + unit, unit, memory), CUDA_ERROR_INVALID_VALUE) << "not reserved";
  EXPECT_EQ(map(base, unit, memory + 1000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(base, unit, memory), CUDA_SUCCESS);
  EXPECT_EQ(map(base, unit, memory), CUDA_ERROR_INVALID_VALUE) << "mapped already";
  EXPECT_EQ(give_access(base, unit, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(give_access(base, unit, 3, 1), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(give_access(base, 2 * unit), CUDA_ERROR_INVALID_VALUE);
  unsigned long long flags = 9;
  CudaMemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  EXPECT_EQ(call("cuMemGetAccess", &flags, static_cast<const CudaMemLocation *>(&location), base), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(call("cuMemRelease", memory), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemUnmap", base, unit), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemAddressFree", base, unit), CUDA_SUCCESS);
}

}  // namespace

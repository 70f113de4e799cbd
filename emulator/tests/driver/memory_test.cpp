// Memory: limits, copies and sets of every shape against plain loops, attributes of pointers, and use after free.
#include "fixture.h"

namespace {

using namespace emulated;

constexpr unsigned char untouched = 0xee;

TEST(Memory, AllocateAndFree) {
  start();
  CUdeviceptr address = 0;
  size_t before = 0, during = 0, total = 0;
  call("cuMemGetInfo_v2", &before, &total);
  ASSERT_EQ(call("cuMemAlloc_v2", &address, size_t{1} << 20), CUDA_SUCCESS);
  call("cuMemGetInfo_v2", &during, &total);
  EXPECT_EQ(before - during, size_t{1} << 20);
  EXPECT_EQ(total, size_t{64} << 20);  // FA_EMU_MEMORY
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  EXPECT_EQ(call("cuMemGetAddressRange_v2", &begin, &bytes, address + (1 << 20) - 1), CUDA_SUCCESS);
  EXPECT_EQ(begin, address);
  EXPECT_EQ(bytes, size_t{1} << 20);
  EXPECT_EQ(call("cuMemGetAddressRange_v2", &begin, &bytes, address + (1 << 20)), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(call("cuMemFree_v2", address + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemFree_v2", address), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemFree_v2", address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemAlloc_v2", &address, size_t{65} << 20), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(call("cuMemAlloc_v2", &address, size_t{0}), CUDA_ERROR_INVALID_VALUE);
}

TEST(Memory, CopiesAreCheckedAgainstAllocations) {
  start();
  Array<unsigned> four(std::vector<unsigned>(4, 1));
  unsigned host[8] = {};
  EXPECT_EQ(call("cuMemcpyDtoH_v2", static_cast<void *>(host), four.address, size_t{20}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemcpyHtoD_v2", four.address + 8, static_cast<const void *>(host), size_t{12}),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemsetD32_v2", four.address, 1u, size_t{5}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemsetD32_v2", four.address + 2, 1u, size_t{1}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuMemcpy", four.address, reinterpret_cast<CUdeviceptr>(host), size_t{16}), CUDA_SUCCESS);
}

TEST(Memory, UseAfterFree) {
  start();
  CUdeviceptr address = 0;
  unsigned host = 0;
  call("cuMemAlloc_v2", &address, size_t{4});
  call("cuMemFree_v2", address);
  EXPECT_EQ(call("cuMemcpyDtoH_v2", static_cast<void *>(&host), address, size_t{4}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EXIT(std::_Exit(step(nullptr, address, 1, 1, 1) == CUDA_SUCCESS &&
                                 call("cuCtxSynchronize") == CUDA_ERROR_ILLEGAL_ADDRESS
                             ? 0
                             : 1),
              testing::ExitedWithCode(0), "");
}

TEST(Memory, RowsAndPlanes) {
  start();
  CUdeviceptr pitched = 0;
  size_t pitch = 0;
  constexpr size_t width = 20, height = 5, depth = 3, host_pitch = 28;
  ASSERT_EQ(call("cuMemAllocPitch_v2", &pitched, &pitch, width + 8, height * depth, 4u), CUDA_SUCCESS);
  EXPECT_EQ(pitch % 512, 0u);
  std::vector<unsigned char> from(host_pitch * height * depth), to(from.size(), untouched);
  for (size_t i = 0; i < from.size(); i++) from[i] = static_cast<unsigned char>(i * 7 + 3);
  CudaCopy3D copy{};
  copy.source.memory_type = CU_MEMORYTYPE_HOST;
  copy.source.host = from.data();
  copy.source.pitch = host_pitch;
  copy.source.height = height;
  copy.source.x = 2;
  copy.destination.memory_type = CU_MEMORYTYPE_DEVICE;
  copy.destination.device = pitched;
  copy.destination.pitch = pitch;
  copy.destination.height = height;
  copy.destination.x = 4;
  copy.width = width;
  copy.height = height - 1;
  copy.depth = depth;
  ASSERT_EQ(call("cuMemcpy3D_v2", static_cast<const CudaCopy3D *>(&copy)), CUDA_SUCCESS);
  CudaCopy2D back{};
  back.source.memory_type = CU_MEMORYTYPE_DEVICE;
  back.source.device = pitched;
  back.source.pitch = pitch;
  back.source.x = 4;
  back.source.y = height * 2;  // the last plane
  back.destination.memory_type = CU_MEMORYTYPE_HOST;
  back.destination.host = to.data();
  back.destination.pitch = host_pitch;
  back.destination.y = 1;
  back.width = width;
  back.height = height - 1;
  ASSERT_EQ(call("cuMemcpy2D_v2", static_cast<const CudaCopy2D *>(&back)), CUDA_SUCCESS);
  for (size_t y = 0; y < height; y++)
    for (size_t x = 0; x < host_pitch; x++) {
      bool copied = y >= 1 && x < width;
      unsigned char expected = copied ? from[(2 * height + y - 1) * host_pitch + 2 + x] : untouched;
      ASSERT_EQ(to[y * host_pitch + x], expected) << y << " " << x;
    }
  back.destination.memory_type = CU_MEMORYTYPE_ARRAY;
  EXPECT_EQ(call("cuMemcpy2D_v2", static_cast<const CudaCopy2D *>(&back)), CUDA_ERROR_NOT_SUPPORTED);
  copy.destination.pitch = width - 1;
  EXPECT_EQ(call("cuMemcpy3D_v2", static_cast<const CudaCopy3D *>(&copy)), CUDA_ERROR_INVALID_VALUE);
  call("cuMemFree_v2", pitched);
}

TEST(Memory, SetsOfRows) {
  start();
  constexpr size_t pitch = 32, height = 4, width = 5;
  Array<unsigned char> bytes(std::vector<unsigned char>(pitch * height, untouched));
  unsigned short value = 0x1234;
  ASSERT_EQ(call("cuMemsetD2D16_v2", bytes.address + 2, pitch, value, width, height - 1), CUDA_SUCCESS);
  auto result = bytes.values();
  for (size_t y = 0; y < height; y++)
    for (size_t x = 0; x < pitch; x++) {
      bool inside = y < height - 1 && x >= 2 && x < 2 + width * 2;
      ASSERT_EQ(result[y * pitch + x], inside ? (x % 2 ? 0x12 : 0x34) : untouched) << y << " " << x;
    }
}

TEST(Memory, WhatPointersAre) {
  start();
  Array<unsigned> device(std::vector<unsigned>(4));
  void *pinned = nullptr;
  std::vector<unsigned> registered(64);
  ASSERT_EQ(call("cuMemHostAlloc", &pinned, size_t{64}, 1u), CUDA_SUCCESS);
  ASSERT_EQ(call("cuMemHostRegister_v2", static_cast<void *>(registered.data()), size_t{256}, 0u), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemHostRegister_v2", static_cast<void *>(registered.data() + 1), size_t{4}, 0u),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  auto type_of = [](uint64_t address) {
    int type = 0;
    return call("cuPointerGetAttribute", static_cast<void *>(&type), 2, CUdeviceptr{address}) == CUDA_SUCCESS ? type
                                                                                                              : -1;
  };
  EXPECT_EQ(type_of(device.address + 4), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(type_of(reinterpret_cast<uint64_t>(pinned)), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(type_of(reinterpret_cast<uint64_t>(&registered[5])), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(type_of(reinterpret_cast<uint64_t>(&type_of)), -1);
  int attributes[] = {2, 9, 11, 12};
  int type = -1, ordinal = -1;
  CUdeviceptr begin = 0;
  size_t bytes = 0;
  void *places[] = {&type, &ordinal, &begin, &bytes};
  EXPECT_EQ(call("cuPointerGetAttributes", 4u, &attributes[0], static_cast<void **>(places), device.address + 8),
            CUDA_SUCCESS);
  EXPECT_EQ(begin, device.address);
  EXPECT_EQ(bytes, 16u);
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(call("cuPointerGetAttributes", 4u, &attributes[0], static_cast<void **>(places), CUdeviceptr{64}),
            CUDA_SUCCESS);
  EXPECT_EQ(type, 0);
  // Booleans are four bytes, of which callers read all.
  constexpr int sync_memops = 6, is_managed = 8, mapped = 13;
  for (const auto &[attribute, expected] : {std::pair{sync_memops, 0u}, {is_managed, 0u}, {mapped, 1u}}) {
    unsigned flag = 0xffffffff, flag_of_many = 0xffffffff;
    int wanted = attribute;
    void *flag_place = &flag_of_many;
    EXPECT_EQ(call("cuPointerGetAttribute", static_cast<void *>(&flag), attribute, device.address), CUDA_SUCCESS);
    EXPECT_EQ(call("cuPointerGetAttributes", 1u, &wanted, &flag_place, device.address), CUDA_SUCCESS);
    EXPECT_EQ(flag, expected) << attribute;
    EXPECT_EQ(flag_of_many, expected) << attribute;
    EXPECT_EQ(call("cuPointerGetAttributes", 1u, &wanted, &flag_place, CUdeviceptr{64}), CUDA_SUCCESS);
    EXPECT_EQ(flag_of_many, 0u) << attribute;
  }
  // Kernels see pinned and registered memory.
  EXPECT_EQ(step(nullptr, reinterpret_cast<CUdeviceptr>(registered.data()), 4, 1, 9), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
  EXPECT_EQ(registered[3], 9u);
  EXPECT_EQ(call("cuMemHostUnregister", static_cast<void *>(registered.data())), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemHostUnregister", static_cast<void *>(registered.data())), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(call("cuMemFreeHost", pinned), CUDA_SUCCESS);
}

TEST(Memory, ManagedMemoryIsOnBothSides) {
  start();
  CUdeviceptr address = 0;
  ASSERT_EQ(call("cuMemAllocManaged", &address, size_t{16}, 1u), CUDA_SUCCESS);
  unsigned *values = reinterpret_cast<unsigned *>(address);
  values[2] = 5;
  EXPECT_EQ(step(nullptr, address, 4, 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(call("cuCtxSynchronize"), CUDA_SUCCESS);
  EXPECT_EQ(values[2], 11u);
  EXPECT_EQ(call("cuMemFree_v2", address), CUDA_SUCCESS);
}

TEST(Pools, OrderOfStreams) {
  StreamHandle stream;
  CUdeviceptr address = 0;
  ASSERT_EQ(call("cuMemAllocAsync", &address, size_t{128}, stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemsetD32Async", address, 3u, size_t{32}, stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(step(stream, address, 32, 2, 1), CUDA_SUCCESS);
  std::vector<unsigned> host(32);
  EXPECT_EQ(call("cuMemcpyDtoHAsync_v2", static_cast<void *>(host.data()), address, size_t{128}, stream.handle),
            CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemFreeAsync", address, stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemFreeAsync", address, stream.handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(host, std::vector<unsigned>(32, 7));
  CUmemoryPool pool = nullptr;
  uint64_t used = 99;
  ASSERT_EQ(call("cuDeviceGetDefaultMemPool", &pool, 0), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemPoolGetAttribute", pool, 7, static_cast<void *>(&used)), CUDA_SUCCESS);
  EXPECT_EQ(used, 0u);
}

TEST(Pools, OwnPools) {
  StreamHandle stream;
  CudaPoolProperties properties{};
  properties.allocation_type = 1;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.max_bytes = 1000;
  CUmemoryPool pool = nullptr;
  CUdeviceptr address = 0;
  ASSERT_EQ(call("cuMemPoolCreate", &pool, static_cast<const CudaPoolProperties *>(&properties)), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemAllocFromPoolAsync", &address, size_t{800}, pool, stream.handle), CUDA_SUCCESS);
  CUdeviceptr more = 0;
  EXPECT_EQ(call("cuMemAllocFromPoolAsync", &more, size_t{300}, pool, stream.handle), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(call("cuMemFreeAsync", address, stream.handle), CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamSynchronize", stream.handle), CUDA_SUCCESS);
  CUmemoryPool initial = nullptr, now = nullptr;
  call("cuDeviceGetDefaultMemPool", &initial, 0);
  EXPECT_EQ(call("cuDeviceSetMemPool", 0, pool), CUDA_SUCCESS);
  EXPECT_EQ(call("cuMemPoolDestroy", pool), CUDA_SUCCESS);
  EXPECT_EQ(call("cuDeviceGetMemPool", &now, 0), CUDA_SUCCESS);
  EXPECT_EQ(now, initial);
}

}  // namespace

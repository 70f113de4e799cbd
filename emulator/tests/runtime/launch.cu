// Devices, launches in all their forms, occupancy, printf.
#include <cooperative_groups.h>

#include <cstring>

#include "expect.h"

namespace {

__global__ void fill(int *out, int value) {
  extern __shared__ int room[];
  room[threadIdx.x] = value;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}
/// Each block reads the value that the next one has written before the grid's barrier.
__global__ void rotate(int *values) {
  auto grid = cooperative_groups::this_grid();
  values[blockIdx.x] = static_cast<int>(blockIdx.x);
  grid.sync();
  int next = values[(blockIdx.x + 1) % gridDim.x];
  grid.sync();
  values[blockIdx.x] = next;
}
__global__ void cluster_rank(int *out) {
#if __CUDA_ARCH__ >= 900
  auto cluster = cooperative_groups::this_cluster();
  __shared__ int mine;
  mine = static_cast<int>(cluster.block_rank());
  cluster.sync();
  out[blockIdx.x] = *cluster.map_shared_rank(&mine, cluster.block_rank() ^ 1);
  cluster.sync();
#endif
}
// prints: block 0 of two
// prints: block 1 of two
__global__ void greet() {
  printf("block %d of %s\n", static_cast<int>(blockIdx.x), "two");
}
template <class T>
__global__ void scale(T *values, T factor) {
  values[threadIdx.x] *= factor;
}
__global__ void wide(int *out, struct Wide *unused, char a, double b, short c) {
  if (!unused) *out = static_cast<int>(a + b + c);
}

int *device = nullptr;

int first() {
  int value = -1;
  WORKS(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

void devices() {
  int count = 0, current = -1, runtime = 0, driver = 0;
  WORKS(cudaGetDeviceCount(&count));
  EXPECT(count == 1);
  WORKS(cudaSetDevice(0));
  WORKS(cudaGetDevice(&current));
  EXPECT(current == 0);
  EXPECT_ERROR(cudaSetDevice(1), cudaErrorInvalidDevice);
  WORKS(cudaRuntimeGetVersion(&runtime));
  WORKS(cudaDriverGetVersion(&driver));
  EXPECT(driver / 1000 >= runtime / 1000);
  cudaDeviceProp properties;
  WORKS(cudaGetDeviceProperties(&properties, 0));
  EXPECT(properties.major * 10 + properties.minor == capability());
  EXPECT(properties.warpSize == 32 && properties.multiProcessorCount > 1 && properties.totalGlobalMem > 0);
  EXPECT(std::strstr(properties.name, "emulated") != nullptr);
  EXPECT(properties.sharedMemPerBlockOptin >= 64 * 1024 && properties.maxThreadsPerBlock == 1024);
  cudaGetLastError();
}

void attributes() {
  int most = 0, blocks = 0, size = 0, least = 0;
  cudaFuncAttributes found;
  WORKS(cudaFuncGetAttributes(&found, fill));
  EXPECT(found.maxThreadsPerBlock == 1024 && found.maxDynamicSharedSizeBytes == 48 * 1024);
  fill<<<1, 32, 60 * 1024>>>(device, 1);
  EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
  WORKS(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  WORKS(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  fill<<<1, 32, 60 * 1024>>>(device, 2);
  WORKS(cudaGetLastError());
  EXPECT(first() == 2);
  WORKS(cudaFuncSetCacheConfig(fill, cudaFuncCachePreferShared));
  WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 128, most));
  EXPECT(blocks == 1);
  WORKS(cudaOccupancyMaxPotentialBlockSize(&least, &size, fill, 4096));
  EXPECT(size >= 32 && size % 32 == 0 && least > 0);
  fill<<<1, 2048>>>(device, 1);
  EXPECT_ERROR(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
  WORKS(cudaGetLastError());
}

void launches() {
  int values[8];
  int eight = 8;
  void *arguments[] = {&device, &eight};
  WORKS(cudaLaunchKernel(reinterpret_cast<const void *>(fill), 1, 8, arguments, 64, nullptr));
  EXPECT(first() == 8);
  wide<<<1, 1>>>(device, nullptr, 1, 2.0, 3);
  EXPECT(first() == 6);
  scale<int><<<1, 1>>>(device, 7);
  EXPECT(first() == 42);
  void *rotated[] = {&device};
  WORKS(cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(rotate), 8, 32, rotated));
  WORKS(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 8; i++) EXPECT(values[i] == (i + 1) % 8);
}

void clusters() {
  if (capability() < 90) return;
  int values[8];
  cudaLaunchConfig_t config{};
  config.gridDim = 8;
  config.blockDim = 32;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int most = 0;
  WORKS(cudaOccupancyMaxPotentialClusterSize(&most, cluster_rank, &config));
  EXPECT(most >= 8);
  WORKS(cudaOccupancyMaxActiveClusters(&most, cluster_rank, &config));
  EXPECT(most > 0);
  WORKS(cudaLaunchKernelEx(&config, cluster_rank, device));
  WORKS(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 8; i++) EXPECT(values[i] == (i ^ 1) % 2);
}

}  // namespace

int main() {
  devices();
  WORKS(cudaMalloc(&device, 4096 * sizeof(int)));
  attributes();
  launches();
  clusters();
  greet<<<2, 1>>>();
  WORKS(cudaDeviceSynchronize());
  WORKS(cudaFree(device));
  return result();
}

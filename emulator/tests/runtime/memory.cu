// Memory: of devices, pinned, managed, in the order of streams, and variables.
#include <cstring>
#include <vector>

#include "expect.h"

namespace {

__device__ int table[256];
__device__ int counter;
__constant__ float factors[4] = {1, 2, 3, 4};
__managed__ int shared_count = 5;

__global__ void add_index(int *values, int count) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += i;
}
__global__ void read_table(int *out) {
  out[threadIdx.x] = table[threadIdx.x] + static_cast<int>(factors[threadIdx.x % 4]);
  atomicAdd(&counter, 1);
  if (threadIdx.x == 0) shared_count *= 2;
}

constexpr int count = 256;
constexpr size_t bytes = count * sizeof(int);

void device_memory() {
  int *device = nullptr, host[count];
  WORKS(cudaMalloc(&device, bytes));
  WORKS(cudaMemset(device, 0, bytes));
  add_index<<<2, 128>>>(device, count);
  WORKS(cudaGetLastError());
  WORKS(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; i++) EXPECT(host[i] == i);
  int *copy = nullptr;
  WORKS(cudaMalloc(&copy, bytes));
  WORKS(cudaMemcpy(copy, device, bytes, cudaMemcpyDeviceToDevice));
  std::memset(host, 0, sizeof host);
  WORKS(cudaMemcpyAsync(host, copy, bytes, cudaMemcpyDefault));
  WORKS(cudaDeviceSynchronize());
  EXPECT(host[count - 1] == count - 1);
  cudaPointerAttributes attributes{};
  WORKS(cudaPointerGetAttributes(&attributes, device + 3));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == device + 3 && attributes.device == 0);
  WORKS(cudaPointerGetAttributes(&attributes, host));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  size_t free_bytes = 0, total = 0;
  WORKS(cudaMemGetInfo(&free_bytes, &total));
  EXPECT(free_bytes + 2 * bytes <= total);
  WORKS(cudaFree(copy));
  WORKS(cudaFree(device));
  WORKS(cudaFree(nullptr));
  EXPECT_ERROR(cudaFree(device), cudaErrorInvalidValue);
  EXPECT_ERROR(cudaMalloc(&device, size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_ERROR(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_ERROR(cudaGetLastError(), cudaErrorMemoryAllocation);
  WORKS(cudaGetLastError());
}

void rows() {
  char *device = nullptr, host[4][20], back[4][20] = {};
  size_t pitch = 0;
  std::memset(host, 7, sizeof host);
  WORKS(cudaMallocPitch(&device, &pitch, 20, 4));
  EXPECT(pitch >= 20 && pitch % 32 == 0);
  WORKS(cudaMemset2D(device, pitch, 1, 20, 4));
  WORKS(cudaMemcpy2D(device, pitch, host, 20, 10, 4, cudaMemcpyHostToDevice));
  WORKS(cudaMemcpy2D(back, 20, device, pitch, 20, 4, cudaMemcpyDeviceToHost));
  EXPECT(back[3][9] == 7 && back[3][10] == 1 && back[0][19] == 1);
  WORKS(cudaFree(device));
  cudaPitchedPtr box{};
  WORKS(cudaMalloc3D(&box, make_cudaExtent(16, 3, 2)));
  WORKS(cudaMemset3D(box, 9, make_cudaExtent(16, 3, 2)));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = box;
  copy.dstPtr = make_cudaPitchedPtr(back, 20, 16, 2);
  copy.extent = make_cudaExtent(16, 2, 2);
  copy.kind = cudaMemcpyDeviceToHost;
  WORKS(cudaMemcpy3D(&copy));
  EXPECT(back[3][15] == 9 && back[3][16] == 1);
  WORKS(cudaFree(box.ptr));
}

void host_memory() {
  int *pinned = nullptr, *seen = nullptr;
  WORKS(cudaMallocHost(&pinned, bytes));
  std::memset(pinned, 0, bytes);
  WORKS(cudaHostGetDevicePointer(&seen, pinned, 0));
  add_index<<<1, count>>>(seen, count);
  WORKS(cudaDeviceSynchronize());
  EXPECT(pinned[100] == 100);
  WORKS(cudaFreeHost(pinned));
  std::vector<int> own(count);
  WORKS(cudaHostRegister(own.data(), bytes, cudaHostRegisterMapped));
  add_index<<<1, count>>>(own.data(), count);
  WORKS(cudaDeviceSynchronize());
  EXPECT(own[200] == 200);
  WORKS(cudaHostUnregister(own.data()));
}

void managed_memory() {
  int *managed = nullptr;
  WORKS(cudaMallocManaged(&managed, bytes));
  for (int i = 0; i < count; i++) managed[i] = 1000;
  cudaMemLocation location{cudaMemLocationTypeDevice, 0};
  WORKS(cudaMemAdvise(managed, bytes, cudaMemAdviseSetPreferredLocation, location));
  WORKS(cudaMemPrefetchAsync(managed, bytes, location, 0, nullptr));
  add_index<<<1, count>>>(managed, count);
  WORKS(cudaDeviceSynchronize());
  EXPECT(managed[255] == 1255);
  WORKS(cudaFree(managed));
}

void stream_ordered() {
  cudaStream_t stream;
  WORKS(cudaStreamCreate(&stream));
  int *device = nullptr, host[count];
  WORKS(cudaMallocAsync(&device, bytes, stream));
  WORKS(cudaMemsetAsync(device, 0, bytes, stream));
  add_index<<<1, count, 0, stream>>>(device, count);
  WORKS(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
  WORKS(cudaFreeAsync(device, stream));
  WORKS(cudaStreamSynchronize(stream));
  EXPECT(host[17] == 17);
  cudaMemPool_t pool;
  WORKS(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t threshold = 1 << 20;
  WORKS(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  WORKS(cudaStreamDestroy(stream));
}

void variables() {
  int values[count], *out = nullptr, host[count], counted = 1;
  for (int i = 0; i < count; i++) values[i] = 3 * i;
  const float two[4] = {2, 2, 2, 2};
  WORKS(cudaMemcpyToSymbol(table, values, sizeof values));
  WORKS(cudaMemcpyToSymbol(factors, two, sizeof(float), 3 * sizeof(float)));
  WORKS(cudaMemcpyToSymbol(counter, &counted, sizeof counted));
  WORKS(cudaMalloc(&out, bytes));
  EXPECT(shared_count == 5);
  read_table<<<1, count>>>(out);
  WORKS(cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; i++) EXPECT(host[i] == 3 * i + (i % 4 == 3 ? 2 : i % 4 + 1));
  WORKS(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
  EXPECT(counted == 1 + count);
  EXPECT(shared_count == 10);
  void *address = nullptr;
  size_t size = 0;
  WORKS(cudaGetSymbolAddress(&address, table));
  WORKS(cudaGetSymbolSize(&size, table));
  EXPECT(size == sizeof values);
  WORKS(cudaMemcpy(host, address, sizeof host, cudaMemcpyDeviceToHost));
  EXPECT(host[5] == 15);
  WORKS(cudaFree(out));
}

}  // namespace

int main() {
  device_memory();
  rows();
  host_memory();
  managed_memory();
  stream_ordered();
  variables();
  return result();
}

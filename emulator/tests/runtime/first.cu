// The first program that anybody writes, compiled as they would: nvcc first.cu
#include <cstdio>

__global__ void square(int *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= values[i];
}

int main() {
  constexpr int count = 1000;
  int host[count], *device = nullptr;
  for (int i = 0; i < count; i++) host[i] = i;
  cudaMalloc(&device, sizeof host);
  cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
  square<<<(count + 127) / 128, 128>>>(device, count);
  cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  cudaFree(device);
  for (int i = 0; i < count; i++)
    if (host[i] != i * i) return std::printf("%d: %d\n", i, host[i]), 1;
  if (cudaError_t error = cudaGetLastError()) return std::puts(cudaGetErrorString(error)), 1;
  std::puts("right");
}

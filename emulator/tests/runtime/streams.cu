// Streams, events, graphs by capture, several threads, faults, and starting over.
#include <thread>
#include <vector>

#include "expect.h"

namespace {

__global__ void add(int *values, int number) {
  values[threadIdx.x] += number;
}
__global__ void beyond(int *values) {
  values[size_t{1} << 33] = 1;
}

constexpr int count = 64;
constexpr size_t bytes = count * sizeof(int);

int *zeros() {
  int *device = nullptr;
  WORKS(cudaMalloc(&device, bytes));
  WORKS(cudaMemset(device, 0, bytes));
  return device;
}
int last(int *device) {
  int value = -1;
  WORKS(cudaMemcpy(&value, device + count - 1, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

void order() {
  cudaStream_t one, two;
  WORKS(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  WORKS(cudaStreamCreateWithPriority(&two, cudaStreamNonBlocking, -1));
  cudaEvent_t begin, end;
  WORKS(cudaEventCreate(&begin));
  WORKS(cudaEventCreateWithFlags(&end, cudaEventDefault));
  int *device = zeros(), host = 0;
  WORKS(cudaDeviceSynchronize());
  WORKS(cudaEventRecord(begin, one));
  for (int i = 0; i < 5; i++) add<<<1, count, 0, one>>>(device, 2);
  WORKS(cudaEventRecord(end, one));
  WORKS(cudaStreamWaitEvent(two, end));
  add<<<1, count, 0, two>>>(device, 100);
  WORKS(cudaMemcpyAsync(&host, device, sizeof host, cudaMemcpyDeviceToHost, two));
  bool called = false;
  WORKS(cudaLaunchHostFunc(
      two, [](void *place) { *static_cast<bool *>(place) = true; }, &called));
  WORKS(cudaStreamSynchronize(two));
  EXPECT(host == 110 && called);
  float milliseconds = -1;
  WORKS(cudaEventSynchronize(end));
  WORKS(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT(milliseconds >= 0);
  WORKS(cudaEventQuery(end));
  WORKS(cudaStreamQuery(one));
  WORKS(cudaEventDestroy(begin));
  WORKS(cudaEventDestroy(end));
  WORKS(cudaStreamDestroy(one));
  WORKS(cudaStreamDestroy(two));
  WORKS(cudaFree(device));
}

void graphs() {
  int *device = zeros();
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  cudaStreamCaptureStatus status;
  WORKS(cudaStreamCreate(&stream));
  WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  add<<<1, count, 0, stream>>>(device, 1);
  add<<<1, count, 0, stream>>>(device, 2);
  WORKS(cudaStreamIsCapturing(stream, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  WORKS(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  WORKS(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 2);
  WORKS(cudaGraphInstantiate(&runnable, graph));
  WORKS(cudaStreamSynchronize(stream));
  EXPECT(last(device) == 0);
  for (int i = 0; i < 3; i++) WORKS(cudaGraphLaunch(runnable, stream));
  WORKS(cudaStreamSynchronize(stream));
  EXPECT(last(device) == 9);
  WORKS(cudaGraphExecDestroy(runnable));
  WORKS(cudaGraphDestroy(graph));
  WORKS(cudaGraphCreate(&graph, 0));
  int number = 5;
  void *arguments[] = {&device, &number};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void *>(add);
  kernel.gridDim = 1;
  kernel.blockDim = count;
  kernel.kernelParams = arguments;
  cudaGraphNode_t node;
  WORKS(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
  WORKS(cudaGraphInstantiate(&runnable, graph));
  WORKS(cudaGraphLaunch(runnable, stream));
  WORKS(cudaStreamSynchronize(stream));
  EXPECT(last(device) == 14);
  WORKS(cudaGraphExecDestroy(runnable));
  WORKS(cudaGraphDestroy(graph));
  WORKS(cudaStreamDestroy(stream));
  WORKS(cudaFree(device));
}

void threads() {
  int *device = zeros();
  std::vector<std::thread> workers;
  for (int t = 0; t < 2; t++)
    workers.emplace_back([device, t] {
      WORKS(cudaSetDevice(0));
      cudaStream_t stream;
      WORKS(cudaStreamCreate(&stream));
      for (int i = 0; i < 20; i++) add<<<1, 32, 0, stream>>>(device + 32 * t, t + 1);
      WORKS(cudaStreamSynchronize(stream));
      // Each thread has its own last error.
      if (t == 0) EXPECT_ERROR(cudaMemcpy(nullptr, device, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
      EXPECT_ERROR(cudaGetLastError(), t == 0 ? cudaErrorInvalidValue : cudaSuccess);
      WORKS(cudaStreamDestroy(stream));
    });
  for (std::thread &worker : workers) worker.join();
  int host[count];
  WORKS(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  EXPECT(host[0] == 20 && host[count - 1] == 40);
  WORKS(cudaFree(device));
}

void starting_over() {
  int *device = zeros();
  WORKS(cudaDeviceReset());
  device = zeros();
  add<<<1, count>>>(device, 3);
  EXPECT(last(device) == 3);
  beyond<<<1, 1>>>(device);
  EXPECT_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_ERROR(cudaMalloc(&device, 4), cudaErrorIllegalAddress);
  WORKS(cudaDeviceReset());
  cudaGetLastError();
  device = zeros();
  add<<<1, count>>>(device, 4);
  EXPECT(last(device) == 4);
}

}  // namespace

int main() {
  order();
  graphs();
  threads();
  starting_over();
  return result();
}

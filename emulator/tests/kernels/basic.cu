// Small kernels that use one thing each, as nvcc's two front ends write them (SM 80, SM 100).
extern "C" __global__ void vector_add(const float *a, const float *b, float *sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

/// The sum of a block's values: within warps by shuffles, between them through shared memory.
extern "C" __global__ void block_sum(const int *values, int *sums) {
  __shared__ int of_warp[32];
  int value = values[blockIdx.x * blockDim.x + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) sum += of_warp[w];
    sums[blockIdx.x] = sum;
  }
}

/// Collatz steps: every lane leaves the loop at another time, and all must meet again.
extern "C" __global__ void collatz(const unsigned *starts, unsigned *steps, unsigned *met) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned value = starts[i], count = 0;
  while (value != 1) {
    if (value % 2)
      value = 3 * value + 1;
    else
      value /= 2;
    count++;
  }
  steps[i] = count;
  met[i] = __ballot_sync(~0u, count > 20);
}

__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

/// Recursion that differs by lane.
extern "C" __global__ void recursion(unsigned *results) { results[threadIdx.x] = fibonacci(threadIdx.x % 12); }

__constant__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter = 3;

/// A jump table, constant memory, a global variable, an array in local memory.
extern "C" __global__ void jumps(const int *modes, float *results) {
  float local[16];
  int i = threadIdx.x;
  for (int j = 0; j < 16; j++) local[j] = j * i;
  float value = table[i & 7] + local[modes[i] & 15];
  switch (modes[i]) {
    case 0: value += 1; break;
    case 1: value *= 2; break;
    case 2: value -= 3; break;
    case 3: value /= 7; break;
    case 4: value = -value; break;
    case 5: value = value * value; break;
    case 6: value += counter; break;
    default: break;
  }
  results[i] = value;
}

/// A block's grid index, in three dimensions.
extern "C" __global__ void where(int *out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 1000 + thread;
}

/// A barrier that one warp never reaches, and a read beyond an allocation.
extern "C" __global__ void hang(int *out) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
  out[threadIdx.x] = 1;
}
extern "C" __global__ void beyond(const int *in, int *out, int at) { out[threadIdx.x] = in[threadIdx.x + at]; }

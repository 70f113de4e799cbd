// Says which code runs: the architecture that it was compiled for, and whether with its own features ('a' targets).
// The images next to this file are nvcc 13.0's; make.sh makes them.
extern "C" __global__ void which(int *out) {
  out[0] = __CUDA_ARCH__;
#ifdef __CUDA_ARCH_SPECIFIC__
  out[1] = 1;
#else
  out[1] = 0;
#endif
}

/// Many registers and a stack frame, which the machine code shows.
extern "C" __global__ void __launch_bounds__(128) heavy(float *out, int n) {
  float local[64];
  for (int i = 0; i < 64; i++) local[i] = out[i * 3] * i;
  float sum = 0;
  for (int i = 0; i < n; i++) sum += local[(i * 7 + n) & 63];
  out[threadIdx.x] = sum;
}

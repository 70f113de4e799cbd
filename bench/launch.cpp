// fa_bench_launch: the time of fa_forward and fa_backward on the host beyond the launch itself, on a driver that does
// nothing (null_driver.cpp). Goal: 3 microseconds.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <fa.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

/// Calls of the driver, all together.
unsigned long long driver_calls() {
  using Calls = unsigned long long (*)(const char *);
  static const auto calls = reinterpret_cast<Calls>(dlsym(dlopen(NULL_DRIVER, RTLD_NOW), "fa_null_driver_calls"));
  return calls(nullptr);
}

/// An op and a call of f16 tensors that are not read.
struct Call {
  fa_op *op = nullptr;
  fa_forward_args args;

  Call(int64_t batch, int64_t queries, int64_t keys, int64_t heads_q, int64_t heads_kv, uint32_t flags) {
    fa_desc desc;
    fa_desc_init(&desc, sizeof desc);
    desc.device = FA_DEVICE_CUDA;
    desc.flags = flags;
    desc.dtype_q = FA_F16;
    desc.head_dim = 128;
    desc.mask = FA_MASK_CAUSAL;
    check(fa_create(&desc, &op));
    fa_forward_args_init(&args, sizeof args);
    char *const memory = reinterpret_cast<char *>(uintptr_t{1} << 40);
    constexpr ptrdiff_t apart = 1 << 30;  // bytes: more than any has
    fa_tensor_init(&args.q, memory, FA_F16, batch, queries, heads_q, 128);
    fa_tensor_init(&args.k, memory + apart, FA_F16, batch, keys, heads_kv, 128);
    fa_tensor_init(&args.v, memory + 2 * apart, FA_F16, batch, keys, heads_kv, 128);
    fa_tensor_init(&args.out, memory + 3 * apart, FA_F16, batch, queries, heads_q, 128);
    check(fa_forward_workspace_size(op, &args, &args.workspace_size));
    if (args.workspace_size) args.workspace = memory + 4 * apart;
  }
  ~Call() { fa_destroy(op); }

  void run() const { check(fa_forward(op, &args)); }

  void run(benchmark::State &state) const {
    run();
    const unsigned long long before = driver_calls();
    for (auto _ : state) run();
    state.counters["driver calls"] =
        static_cast<double>(driver_calls() - before) / static_cast<double>(state.iterations());
  }

  static void check(fa_status status) {
    if (status == FA_OK) return;
    std::fprintf(stderr, "%s\n", fa_last_error());
    std::exit(1);
  }
};

void prefill(benchmark::State &state, uint32_t flags) {
  Call(4, 4096, 4096, 32, 8, flags).run(state);
}
BENCHMARK_CAPTURE(prefill, pointers_asked_about, 0)->Unit(benchmark::kNanosecond);
BENCHMARK_CAPTURE(prefill, device_pointers, FA_FLAG_DEVICE_POINTERS)->Unit(benchmark::kNanosecond);

void decode_in_splits(benchmark::State &state, uint32_t flags) {
  Call(1, 1, 32768, 32, 8, flags).run(state);
}
BENCHMARK_CAPTURE(decode_in_splits, pointers_asked_about, 0)->Unit(benchmark::kNanosecond);
BENCHMARK_CAPTURE(decode_in_splits, device_pointers, FA_FLAG_DEVICE_POINTERS)->Unit(benchmark::kNanosecond);

/// The two passes of a call of f32: three kernels.
void gradients(benchmark::State &state) {
  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CUDA;
  desc.dtype_q = FA_F32;
  desc.head_dim = 128;
  fa_op *op = nullptr;
  Call::check(fa_create(&desc, &op));
  fa_backward_args args;
  fa_backward_args_init(&args, sizeof args);
  constexpr ptrdiff_t apart = 1 << 30;
  char *memory = reinterpret_cast<char *>(uintptr_t{1} << 40);
  for (fa_tensor *rows : {&args.q, &args.k, &args.v, &args.out, &args.dout, &args.dq, &args.dk, &args.dv})
    fa_tensor_init(rows, memory += apart, FA_F32, 2, 1024, 8, 128);
  fa_tensor_init(&args.lse, memory += apart, FA_F32, 2, 8, 1024, 1);
  Call::check(fa_backward_workspace_size(op, &args, &args.workspace_size));
  args.workspace = memory += apart;
  for (auto _ : state) Call::check(fa_backward(op, &args));
  fa_destroy(op);
}
BENCHMARK(gradients)->Unit(benchmark::kNanosecond);

/// The bare launch that the others are compared with.
void launch(benchmark::State &state) {
  using Get = int (*)(const char *, void **, int, uint64_t, int *);
  using Launch = int (*)(const void *, void *, void **, void **);
  const auto get = reinterpret_cast<Get>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2"));
  void *function = nullptr;
  get("cuLaunchKernelEx", &function, 13000, 0, nullptr);
  for (auto _ : state) benchmark::DoNotOptimize(reinterpret_cast<Launch>(function)(nullptr, nullptr, nullptr, nullptr));
}
BENCHMARK(launch)->Unit(benchmark::kNanosecond);

}  // namespace

/// The driver that is found is the null one, which this library loads before libfa asks for it.
int main(int argc, char **argv) {
  if (dlopen(NULL_DRIVER, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

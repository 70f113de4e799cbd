// fa_bench_cold: from a process's start to the first result on the GPU, step by step, and the device memory that
// fa_create takes: one JSON object. Each run is one measurement, as a process is cold once; with --null on a driver
// that does nothing, so that libfa's own time is left.
#include <dlfcn.h>
#include <fa.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

namespace {

/// Milliseconds since the machine started.
double now() {
  timespec time = {};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return double(time.tv_sec) * 1e3 + double(time.tv_nsec) / 1e6;
}

/// When this process started, by the same clock, to a tick of the system (10 ms).
double start_of_process() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const char *field = std::strrchr(text.c_str(), ')');  // the second; the 22nd is asked for
  for (int i = 2; field != nullptr && i < 22; i++) field = std::strchr(field + 1, ' ');
  return field == nullptr ? now() : std::strtod(field, nullptr) * 1e3 / double(sysconf(_SC_CLK_TCK));
}

/// A function of the driver; nullptr where it has none.
template <class Function>
Function *function_of(void *driver, const char *name) {
  using Get = int(const char *, void **, int, uint64_t, int *);
  const auto get = reinterpret_cast<Get *>(dlsym(driver, "cuGetProcAddress_v2"));
  void *function = nullptr;
  return get != nullptr && get(name, &function, 12000, 0, nullptr) == 0 ? reinterpret_cast<Function *>(function)
                                                                        : nullptr;
}

[[noreturn]] void stop(const char *text) {
  std::fprintf(stderr, "%s\n", text);
  std::exit(1);
}

void check(fa_status status) {
  if (status != FA_OK) stop(fa_last_error());
}

/// The driver, with the calls of a user's program to it.
struct Driver {
  explicit Driver(void *library)
      : allocate(function_of<int(unsigned long long *, size_t)>(library, "cuMemAlloc")),
        memory(function_of<int(size_t *, size_t *)>(library, "cuMemGetInfo")),
        wait(function_of<int()>(library, "cuCtxSynchronize")) {
    const auto init = function_of<int(unsigned)>(library, "cuInit");
    const auto retain = function_of<int(void **, int)>(library, "cuDevicePrimaryCtxRetain");
    const auto push = function_of<int(void *)>(library, "cuCtxPushCurrent");
    void *context = nullptr;
    if (init == nullptr || init(0) != 0 || retain(&context, 0) != 0 || push(context) != 0) stop("there is no GPU");
  }

  long long free_bytes() const {
    size_t free = 0, all = 0;
    return memory != nullptr && memory(&free, &all) == 0 ? static_cast<long long>(free) : 0;
  }
  void synchronise() const {
    if (wait != nullptr && wait() != 0) stop("the GPU has failed");
  }
  void *tensor(size_t bytes) const {
    static unsigned long long unread = 1ull << 40;  // where there is no allocation
    unsigned long long address = unread += bytes;
    if (allocate != nullptr && allocate(&address, bytes) != 0) stop("the GPU has no memory");
    return reinterpret_cast<void *>(address);
  }

  int (*allocate)(unsigned long long *, size_t);
  int (*memory)(size_t *, size_t *);
  int (*wait)();
};

}  // namespace

int main(int argc, char **argv) {
  const double start = start_of_process(), at_main = now();
  const bool null = argc == 2 && std::strcmp(argv[1], "--null") == 0;
  if (argc > 1 && !null) stop("usage: fa_bench_cold [--null]");
  void *library = dlopen(null ? NULL_DRIVER : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) stop(dlerror());
  const Driver driver(library);
  constexpr int64_t rows = 128, dim = 128;
  fa_forward_args args;
  fa_forward_args_init(&args, sizeof args);
  for (fa_tensor *tensor : {&args.q, &args.k, &args.v, &args.out})
    fa_tensor_init(tensor, driver.tensor(rows * dim * 2), FA_F16, 1, rows, 1, dim);
  const long long free_before = driver.free_bytes();
  const double before = now();

  fa_desc desc;
  fa_desc_init(&desc, sizeof desc);
  desc.device = FA_DEVICE_CUDA;
  desc.dtype_q = FA_F16;
  desc.head_dim = dim;
  fa_op *op = nullptr;
  check(fa_create(&desc, &op));
  const double created = now();
  const long long free_created = driver.free_bytes();
  double called[2];
  for (double &end : called) {
    check(fa_forward(op, &args));
    driver.synchronise();
    end = now();
  }
  std::printf(
      "{\"kernel\": \"%s\", \"process_to_main_ms\": %.1f, \"context_and_tensors_ms\": %.3f, \"create_ms\": %.3f, "
      "\"first_call_ms\": %.3f, \"second_call_ms\": %.3f, \"process_to_first_result_ms\": %.1f, "
      "\"create_device_bytes\": %lld, \"calls_device_bytes\": %lld}\n",
      fa_op_kernel_name(op), at_main - start, before - at_main, created - before, called[0] - created,
      called[1] - called[0], called[0] - start, free_before - free_created, free_created - driver.free_bytes());
  fa_destroy(op);
  return 0;
}

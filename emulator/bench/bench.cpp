// How fast the emulator is: thread-instructions a second of an attention forward on one core, and the time that PTX
// takes to parse. fa_bench_emulator [--check] [--hopper] [Google Benchmark's options]; --check watches as
// FA_EMU_CHECK=1 does, --hopper runs a kernel of wgmma and TMA on an sm_90a. Goals on one core: 150 M/s, 90 M/s with
// checks, 20 ms for 10,000 lines; of two heads 50 ms, of --hopper 60 ms.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int width = 64, sequence = 512, heads = 2;
bool checked = false, hopper = false;

void *library() {
  std::string folder = EMULATOR_FOLDER;
  void *opened = nullptr;
  auto open_build = [&](const char *build) {
    if (!opened) opened = dlopen((folder + build + "/libcuda.so.1").c_str(), RTLD_NOW);
  };
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    open_build("/glibc-hwcaps/x86-64-v4");
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) open_build("/glibc-hwcaps/x86-64-v3");
#endif
  open_build("");
  if (!opened) std::fprintf(stderr, "%s\n", dlerror()), std::exit(1);
  return opened;
}

/// Calls a function of the driver API; ends the program where it fails.
template <class... Arguments>
void call(const char *name, Arguments... arguments) {
  static void *const opened = library();
  auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(opened, name));
  int code = function ? function(arguments...) : -1;
  if (code != 0) std::fprintf(stderr, "%s gives %d\n", name, code), std::exit(1);
}

const std::string &text() {
  static const std::string result = [] {
    std::ifstream file(hopper ? HOPPER_KERNEL : EMULATOR_KERNEL);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }();
  return result;
}

struct alignas(64) TensorMap {
  uint8_t bytes[128];
};

/// Tiles of 64 rows of a tensor of (width, sequence, heads) halves, in lines of 128 swizzled bytes.
TensorMap tiles_of(uint64_t address) {
  constexpr int f16 = 6, swizzle_128 = 3;
  TensorMap map;
  const uint64_t extents[] = {width, sequence, heads}, strides[] = {width * 2, sequence * width * 2};
  const uint32_t box[] = {width, 64, 1}, steps[] = {1, 1, 1};
  call("cuTensorMapEncodeTiled", static_cast<void *>(&map), f16, 3u, reinterpret_cast<void *>(address),
       static_cast<const uint64_t *>(extents), static_cast<const uint64_t *>(strides),
       static_cast<const uint32_t *>(box), static_cast<const uint32_t *>(steps), 0, swizzle_128, 0, 0);
  return map;
}

/// The kernel and its tensors: `heads` heads of `sequence` queries and keys.
struct Forward {
  void *function = nullptr;
  uint64_t tensors[4] = {};

  Forward() {
    void *context = nullptr, *module = nullptr;
    call("cuInit", 0u);
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxSetCurrent", context);
    call("cuModuleLoadData", &module, static_cast<const void *>(text().c_str()));
    call("cuModuleGetFunction", &function, module, "attention");
    std::vector<uint16_t> ones(heads * sequence * width, 0x3c00);
    for (uint64_t &tensor : tensors) {
      call("cuMemAlloc_v2", &tensor, ones.size() * 2);
      call("cuMemcpyHtoD_v2", tensor, static_cast<const void *>(ones.data()), ones.size() * 2);
    }
  }
  void run() {
    hopper ? run_hopper() : run_ampere();
    call("cuCtxSynchronize");
  }

 private:
  /// Its kernel knows one head: a launch for each.
  void run_ampere() {
    int count = sequence, fault = 0;
    float scale = 0.18f;
    for (uint64_t head = 0; head < heads; head++) {
      uint64_t at[4];
      for (int i = 0; i < 4; i++) at[i] = tensors[i] + head * sequence * width * 2;
      void *parameters[] = {&at[0], &at[1], &at[2], &at[3], &count, &scale, &fault};
      launch(1, 128, 49152, parameters);
    }
  }
  void run_hopper() {
    TensorMap maps[] = {tiles_of(tensors[0]), tiles_of(tensors[1]), tiles_of(tensors[2])};
    struct {
      int keys, rows;
      float scale;
    } sizes = {sequence, sequence, 0.18f};
    void *parameters[] = {&maps[0], &maps[1], &maps[2], &tensors[3], &sizes};
    launch(heads, 256, 5 * 8192, parameters);
  }
  void launch(unsigned rows, unsigned threads, unsigned shared, void **parameters) {
    call("cuLaunchKernel", function, static_cast<unsigned>(sequence / 64), rows, 1u, threads, 1u, 1u, shared,
         static_cast<void *>(nullptr), parameters, static_cast<void **>(nullptr));
  }
};

/// Thread-instructions of one forward, from the JSON of another process, which counts.
double instructions() {
  char file[] = "/tmp/fa_bench_emulator.XXXXXX";
  close(mkstemp(file));
  if (pid_t child = fork(); child == 0) {
    setenv("FA_EMU_JSON", file, 1);
    Forward().run();
    std::_Exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  std::ifstream lines(file);
  unlink(file);
  const char key[] = "\"thread_instructions\":";
  double sum = 0;
  for (std::string line; std::getline(lines, line);)
    if (size_t at = line.find(key); at != std::string::npos)
      sum += std::strtod(line.c_str() + at + sizeof key - 1, nullptr);
  return sum;
}

void forward(benchmark::State &state) {
  static const double count = instructions();
  static Forward work;
  for (auto _ : state) work.run();
  state.counters["M_instructions/s"] =
      benchmark::Counter(count * static_cast<double>(state.iterations()) / 1e6, benchmark::Counter::kIsRate);
  if (hopper)
    state.counters["goal_ms"] = 60;
  else
    state.counters["goal"] = checked ? 90 : 150;
}

void parse(benchmark::State &state) {
  static Forward work;
  double lines = static_cast<double>(std::count(text().begin(), text().end(), '\n'));
  for (auto _ : state) {
    void *module = nullptr;
    call("cuModuleLoadData", &module, static_cast<const void *>(text().c_str()));
    state.PauseTiming();
    call("cuModuleUnload", module);
    state.ResumeTiming();
  }
  // Seconds for 10,000 lines, as an inverted rate.
  state.counters["10k_lines"] = benchmark::Counter(lines / 1e4 * static_cast<double>(state.iterations()),
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["goal"] = benchmark::Counter(0.02);
}

// Seconds of processor time, of all threads: other programs of the machine must not count.
BENCHMARK(forward)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK(parse)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

}  // namespace

int main(int count, char **arguments) {
  setenv("FA_EMU_THREADS", "1", 1);
  auto take = [&](const char *option) {
    auto is_it = [&](char *argument) { return std::strcmp(argument, option) == 0; };
    char **end = arguments + count, **kept = std::remove_if(arguments + 1, end, is_it);
    count = static_cast<int>(kept - arguments);
    return kept != end;
  };
  checked = take("--check");
  hopper = take("--hopper");
  if (checked) setenv("FA_EMU_CHECK", "1", 1);
  if (hopper) setenv("FA_EMU_DEVICE", "sm_90a", 1);
  benchmark::Initialize(&count, arguments);
  benchmark::RunSpecifiedBenchmarks();
}

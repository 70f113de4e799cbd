// How fast the emulator is: thread-instructions a second of an attention forward on one core, and the time that PTX
// takes to parse. fa_bench_emulator [--check] [Google Benchmark's options]; --check watches as FA_EMU_CHECK=1 does.
// Goals on one core: 150 M/s, 90 M/s with checks, 20 ms for 10,000 lines.
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

constexpr int width = 64, sequence = 512;
bool checked = false;

void *library() {
  std::string folder = EMULATOR_FOLDER;
  std::string fast = folder + "/glibc-hwcaps/x86-64-v3/libcuda.so.1", plain = folder + "/libcuda.so.1";
  void *opened = nullptr;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) opened = dlopen(fast.c_str(), RTLD_NOW);
#endif
  if (!opened) opened = dlopen(plain.c_str(), RTLD_NOW);
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
    std::ifstream file(EMULATOR_KERNEL);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }();
  return result;
}

/// The kernel and its tensors: one head of `sequence` queries and keys.
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
    std::vector<uint16_t> ones(sequence * width, 0x3c00);
    for (uint64_t &tensor : tensors) {
      call("cuMemAlloc_v2", &tensor, ones.size() * 2);
      call("cuMemcpyHtoD_v2", tensor, static_cast<const void *>(ones.data()), ones.size() * 2);
    }
  }
  void run() {
    int count = sequence, fault = 0;
    float scale = 0.18f;
    void *parameters[] = {&tensors[0], &tensors[1], &tensors[2], &tensors[3], &count, &scale, &fault};
    call("cuLaunchKernel", function, static_cast<unsigned>(sequence / 64), 1u, 1u, 128u, 1u, 1u, 49152u,
         static_cast<void *>(nullptr), static_cast<void **>(parameters), static_cast<void **>(nullptr));
    call("cuCtxSynchronize");
  }
};

/// Thread-instructions of one forward: what another process, which counts, writes as JSON.
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
  std::string line;
  std::getline(lines, line);
  unlink(file);
  const char key[] = "\"thread_instructions\":";
  size_t at = line.find(key);
  return at == std::string::npos ? 0 : std::strtod(line.c_str() + at + sizeof key - 1, nullptr);
}

void forward(benchmark::State &state) {
  static const double count = instructions();
  static Forward work;
  for (auto _ : state) work.run();
  state.counters["M_instructions/s"] =
      benchmark::Counter(count * static_cast<double>(state.iterations()) / 1e6, benchmark::Counter::kIsRate);
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
  // Seconds for 10,000 lines, as a rate turned round.
  state.counters["10k_lines"] = benchmark::Counter(lines / 1e4 * static_cast<double>(state.iterations()),
                                                   benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["goal"] = benchmark::Counter(0.02);
}

// Seconds of processor time, of all threads: what else the machine does must not count.
BENCHMARK(forward)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
BENCHMARK(parse)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

}  // namespace

int main(int count, char **arguments) {
  setenv("FA_EMU_THREADS", "1", 1);
  for (int i = 1; i < count; i++)
    if (std::strcmp(arguments[i], "--check") == 0) {
      checked = true;
      setenv("FA_EMU_CHECK", "1", 1);
      std::copy(arguments + i + 1, arguments + count, arguments + i);
      count--;
      break;
    }
  benchmark::Initialize(&count, arguments);
  benchmark::RunSpecifiedBenchmarks();
}

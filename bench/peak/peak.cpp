// Chooses the measuring loops of this CPU and runs them on as many threads as asked, all at once.
#include "peak.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "peak_loops.h"

namespace fa::bench {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool has_avx512_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif

using ReadLoop = uint64_t (*)(const void *, size_t);

ReadLoop read_loop(ReadPattern pattern) {
  if (pattern == ReadPattern::eight_streams) return read_streams_generic;
#if defined(__x86_64__)
  if (has_avx512()) return read_avx512;
  if (has_avx2()) return read_avx2;
#endif
  return read_generic;
}

/// Runs work(thread) on `threads` threads that start together; seconds from the start to the end of the last one, on
/// clock_for(threads).
template <class Work>
double run_together(int threads, const Work &work) {
  if (threads == 1) {
    const double start = now(Clock::cpu);
    work(0);
    return now(Clock::cpu) - start;
  }
  std::atomic<int> waiting{threads};
  std::vector<double> start(threads), end(threads);
  auto body = [&](int thread) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) {
    }
    start[thread] = now(Clock::wall);
    work(thread);
    end[thread] = now(Clock::wall);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(body, thread);
  body(0);
  for (std::thread &other : others) other.join();
  return *std::max_element(end.begin(), end.end()) - *std::min_element(start.begin(), start.end());
}

std::string first_model_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace

PeakLoop peak_loop(Peak peak) {
#if defined(__x86_64__)
  switch (peak) {
    case Peak::f32:
      if (has_avx512()) return {"avx512", fma_avx512};
      if (has_avx2()) return {"avx2", fma_avx2};
      return {"generic", fma_generic};
    case Peak::f32_avx2:
      return has_avx2() ? PeakLoop{"avx2", fma_avx2} : PeakLoop{};
    case Peak::bf16:
      return has_avx512_bf16() ? PeakLoop{"avx512_bf16", dot_bf16_avx512} : PeakLoop{};
    case Peak::bf16_amx:
      return permits_amx_bf16() ? PeakLoop{"amx_bf16", dot_bf16_amx} : PeakLoop{};
  }
  return {};
#else
  return peak == Peak::f32 ? PeakLoop{"generic", fma_generic} : PeakLoop{};
#endif
}

double measure_peak(Peak peak, int threads) {
  constexpr double slice = 4e-3;  // long enough to time well, short enough to fit between two disturbances
  constexpr int slices = 9;
  const PeakLoop loop = peak_loop(peak);
  if (loop.run == nullptr) return 0;
  const double start = now(Clock::cpu);
  loop.run(20000);  // also brings the clock up
  const auto rounds = std::max<int64_t>(1, static_cast<int64_t>(20000 * slice / (now(Clock::cpu) - start)));
  std::vector<double> rates;
  for (int i = 0; i < slices; ++i) {
    std::vector<double> flops(threads);
    const double seconds = run_together(threads, [&](int thread) { flops[thread] = loop.run(rounds); });
    double sum = 0;
    for (double f : flops) sum += f;
    rates.push_back(sum / seconds * 1e-9);
  }
  return median(rates);
}

HugeBuffer::HugeBuffer(size_t bytes) : bytes_(bytes) {
  constexpr size_t page = size_t{2} << 20;
  const size_t rounded = (bytes + page - 1) / page * page;
  data_ = static_cast<char *>(std::aligned_alloc(page, rounded));
  if (data_ == nullptr) throw std::bad_alloc();
  madvise(data_, rounded, MADV_HUGEPAGE);
  std::memset(data_, 0, rounded);
}

HugeBuffer::~HugeBuffer() {
  std::free(data_);
}

double read_seconds(const std::vector<Span> &spans, int threads, ReadPattern pattern) {
  const ReadLoop read = read_loop(pattern);
  std::atomic<uint64_t> sink{0};
  return run_together(threads, [&](int thread) {
    uint64_t sum = 0;
    for (const Span &span : spans) {
      const size_t share = span.bytes / threads;
      sum ^= read(static_cast<const char *>(span.data) + share * thread, share);
    }
    sink ^= sum;
  });
}

double copy_seconds(const Copy &copy, int threads) {
  return run_together(threads, [&](int thread) {
    const size_t share = copy.bytes / threads, first = share * thread;
    std::memcpy(static_cast<char *>(copy.to) + first, static_cast<const char *>(copy.from) + first, share);
  });
}

size_t cold_bytes() {
  // By the cache that the first CPU sees: sysconf counts the caches of a whole package.
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  size_t kib = 0;
  file >> kib;
  return std::max(size_t{384} << 20, 8 * kib << 10);
}

bool is_zen5() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vp2intersect") && __builtin_cpu_is("amd");
#else
  return false;
#endif
}

const char *cpu_name() {
  static const std::string name = first_model_name();
  return name.c_str();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double now(Clock clock) {
  timespec time;
  clock_gettime(clock == Clock::cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace fa::bench

// The machine's ceilings, measured with the kernels in the same run: every figure is a fraction of one of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace fa::bench {

/// The bounds of a product.
enum class Peak {
  f32,       // fused multiply-add in f32 with the widest vectors of this CPU
  f32_avx2,  // the same with 256-bit vectors
  bf16,      // the native bf16 dot product (vdpbf16ps)
  bf16_amx,  // products of bf16 tiles (tdpbf16ps)
};

/// A loop of independent multiply-adds, and the name of the instruction set that it is compiled for.
struct PeakLoop {
  const char *isa = nullptr;
  /// Runs the loop `rounds` times and returns the number of floating-point operations done.
  double (*run)(int64_t rounds) = nullptr;
};

/// The loop that measures `peak` on this CPU; run is nullptr where the CPU cannot.
PeakLoop peak_loop(Peak peak);

/// GFLOP/s of `peak` on `threads` threads together: the median of several slices of a few milliseconds each.
/// 0 where the CPU cannot.
double measure_peak(Peak peak, int threads);

/// Memory in huge pages, where the system lends them: that keeps a measurement free of the luck of page placement.
/// Written all over once.
class HugeBuffer {
 public:
  explicit HugeBuffer(size_t bytes);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer &&other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  HugeBuffer &operator=(HugeBuffer &&) = delete;
  char *data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char *data_;
  size_t bytes_;
};

/// A stretch of memory to read.
struct Span {
  const void *data;
  size_t bytes;
};

/// The order in which a thread reads its share: from first to last, or alternating between eight places, which leaves
/// the memory more to do at once.
enum class ReadPattern { in_order, eight_streams };

/// Seconds that `threads` threads need to read every byte of `spans` once, each an equal share of every span.
double read_seconds(const std::vector<Span> &spans, int threads, ReadPattern pattern = ReadPattern::in_order);

/// A stretch of memory to copy.
struct Copy {
  void *to;
  const void *from;
  size_t bytes;
};

/// Seconds that `threads` threads need for memcpy of it, each an equal share.
double copy_seconds(const Copy &copy, int threads);

/// Bytes of memory after which a buffer that is cycled through is no longer in any cache.
size_t cold_bytes();

/// True where the FMA rate is twice that of its predecessor (Zen 5): the goals there are three points lower.
bool is_zen5();

/// The CPU's name as the system gives it.
const char *cpu_name();

double median(std::vector<double> values);

/// The clock of a measurement. One thread is measured in CPU time of the process, so that other work on the machine
/// takes nothing from it; several can only be measured by the wall.
enum class Clock { cpu, wall };

inline Clock clock_for(int threads) {
  return threads == 1 ? Clock::cpu : Clock::wall;
}

/// Seconds on that clock, from some beginning.
double now(Clock clock);

}  // namespace fa::bench

// The ceilings of this machine, measured in the rounds of a run: products of the CPU, and reading memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench_case.h"

namespace fa::tool {

struct Ceiling {
  std::string name;           // "f32", "f32 avx2", "bf16" or "memory"
  std::vector<double> rates;  // GFLOP/s, of memory GB/s; one a round

  bool operator==(const Ceiling &) const = default;
};

/// Measures the ceilings of these cases, which have as many threads each, once a round. Throws BadInput where a case
/// asks for other threads or for a kernel of a GPU.
class CeilingMeter {
 public:
  explicit CeilingMeter(const std::vector<BenchCase> &cases);
  ~CeilingMeter();

  void round();
  const std::vector<Ceiling> &ceilings() const { return ceilings_; }

 private:
  struct Memory;

  int32_t threads_;
  std::vector<Ceiling> ceilings_;
  std::unique_ptr<Memory> memory_;  // whose reading empties the caches that calls find
};

/// The ceiling of a kernel's products among these: nullptr where there is none.
const Ceiling *ceiling_of(const std::string &kernel, const std::vector<Ceiling> &ceilings);

/// That of memory; nullptr where there is none.
const Ceiling *memory_of(const std::vector<Ceiling> &ceilings);

}  // namespace fa::tool

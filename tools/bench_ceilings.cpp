#include "bench_ceilings.h"

#include <algorithm>

#include "error.h"
#include "gpu.h"
#include "machine.h"
#include "peak.h"

namespace fa::tool {
namespace {

struct Product {
  const char *name;
  bench::Peak peak;
};
constexpr Product products[] = {
    {"f32", bench::Peak::f32},
    {"f32 avx2", bench::Peak::f32_avx2},
    {"bf16", bench::Peak::bf16},
    {"bf16 amx", bench::Peak::bf16_amx},
};

const Ceiling *find(const std::string &name, const std::vector<Ceiling> &ceilings) {
  const auto found = std::ranges::find(ceilings, name, &Ceiling::name);
  return found == ceilings.end() ? nullptr : &*found;
}

bool is_asked_for(const Product &product, const std::vector<BenchCase> &cases) {
  if (product.peak == bench::Peak::f32_avx2)
    return std::ranges::any_of(cases, [](const BenchCase &c) { return c.kernel == "cpu.avx2"; });
  return true;
}

}  // namespace

struct CeilingMeter::Memory {
  bench::HugeBuffer buffer{std::min(bench::cold_bytes(), size_t{512} << 20)};
};

CeilingMeter::CeilingMeter(const std::vector<BenchCase> &cases) : threads_(0) {
  for (const BenchCase &c : cases) {
    if (is_gpu_kernel(c.kernel))
      bad_input("--roofline: kernel {} is a GPU's; expected cases on the CPU, whose ceilings are measured", c.kernel);
    const int32_t threads = c.threads > 0 ? c.threads : default_threads();
    if (threads_ != 0 && threads != threads_)
      bad_input("--roofline: cases have {} and {} threads; expected the same number, as a ceiling has one", threads_,
                threads);
    threads_ = threads;
  }
  for (const Product &product : products) {
    if (bench::peak_loop(product.peak).run != nullptr && is_asked_for(product, cases))
      ceilings_.push_back({product.name, {}});
  }
  ceilings_.push_back({"memory", {}});
  memory_ = std::make_unique<Memory>();
}

CeilingMeter::~CeilingMeter() = default;

void CeilingMeter::round() {
  for (Ceiling &ceiling : ceilings_) {
    for (const Product &product : products) {
      if (ceiling.name == product.name) ceiling.rates.push_back(bench::measure_peak(product.peak, threads_));
    }
  }
  const std::vector<bench::Span> all = {{memory_->buffer.data(), memory_->buffer.bytes()}};
  const auto rate = [&](bench::ReadPattern pattern) {
    return static_cast<double>(memory_->buffer.bytes()) / bench::read_seconds(all, threads_, pattern) * 1e-9;
  };
  ceilings_.back().rates.push_back(
      std::max(rate(bench::ReadPattern::in_order), rate(bench::ReadPattern::eight_streams)));
}

const Ceiling *ceiling_of(const std::string &kernel, const std::vector<Ceiling> &ceilings) {
  if (kernel.starts_with("cpu.amx_bf16")) return find("bf16 amx", ceilings);
  if (kernel == "cpu.avx512_bf16") return find("bf16", ceilings);
  const Ceiling *narrow = kernel == "cpu.avx2" ? find("f32 avx2", ceilings) : nullptr;
  return narrow ? narrow : find("f32", ceilings);
}

const Ceiling *memory_of(const std::vector<Ceiling> &ceilings) {
  return find("memory", ceilings);
}

}  // namespace fa::tool

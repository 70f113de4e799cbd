// CUB's algorithms over a whole device, compared with the host's: reduce, scan, select, histogram.
#include <algorithm>
#include <cub/cub.cuh>
#include <numeric>

#include "check.h"

/// Runs an algorithm of CUB's, which is called twice: for the size of its scratch memory, then for the work.
template <typename Call>
void run(Call call) {
  size_t bytes = 0;
  OK(call(nullptr, bytes));
  Device<char> scratch(bytes);
  OK(call(scratch.at, bytes));
  OK(cudaDeviceSynchronize());
}

struct Odd {
  __host__ __device__ bool operator()(int x) const { return x % 2 != 0; }
};

int main(int argc, char **argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 20000;
  const auto host = numbers(n, 1000);
  Device<int> in(host), out(n), count(1);

  run([&](void *scratch, size_t &bytes) { return cub::DeviceReduce::Sum(scratch, bytes, in.at, count.at, n); });
  expect("reduce", count.host()[0] == std::accumulate(host.begin(), host.end(), 0));

  run([&](void *scratch, size_t &bytes) { return cub::DeviceScan::InclusiveSum(scratch, bytes, in.at, out.at, n); });
  std::vector<int> wanted(n);
  std::partial_sum(host.begin(), host.end(), wanted.begin());
  expect("scan", out.host() == wanted);

  run([&](void *scratch, size_t &bytes) {
    return cub::DeviceSelect::If(scratch, bytes, in.at, out.at, count.at, n, Odd{});
  });
  wanted.erase(std::copy_if(host.begin(), host.end(), wanted.begin(), Odd{}), wanted.end());
  auto got = out.host();
  got.resize(std::min<size_t>(n, count.host()[0]));
  expect("select", got == wanted);

  Device<int> bins(50);
  run([&](void *scratch, size_t &bytes) {
    return cub::DeviceHistogram::HistogramEven(scratch, bytes, in.at, bins.at, 51, 0, 1000, n);
  });
  wanted.assign(50, 0);
  for (int value : host) wanted[value / 20]++;
  expect("histogram", bins.host() == wanted);
  return finish();
}

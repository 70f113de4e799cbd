// thrust's vectors and algorithms, compared with the host's.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

#include <algorithm>
#include <numeric>

#include "check.h"

struct Square {
  __host__ __device__ long operator()(int x) const { return long(x) * x; }
};

int main(int argc, char **argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 10000;
  auto host = numbers(n, 300);
  thrust::device_vector<int> in(host.begin(), host.end());

  long squares = 0;
  for (int value : host) squares += Square{}(value);
  expect("transform_reduce",
         thrust::transform_reduce(in.begin(), in.end(), Square{}, 0L, thrust::plus<long>{}) == squares);

  thrust::device_vector<int> sums(n);
  thrust::exclusive_scan(in.begin(), in.end(), sums.begin(), 7);
  std::vector<int> wanted(n);
  std::exclusive_scan(host.begin(), host.end(), wanted.begin(), 7);
  expect("exclusive_scan", std::equal(wanted.begin(), wanted.end(), thrust::host_vector<int>(sums).begin()));

  thrust::sort(in.begin(), in.end(), thrust::greater<int>{});
  std::sort(host.begin(), host.end(), std::greater<int>{});
  expect("sort", std::equal(host.begin(), host.end(), thrust::host_vector<int>(in).begin()));

  in.erase(thrust::unique(in.begin(), in.end()), in.end());
  host.erase(std::unique(host.begin(), host.end()), host.end());
  expect("unique",
         in.size() == host.size() && std::equal(host.begin(), host.end(), thrust::host_vector<int>(in).begin()));
  return finish();
}

// CUB's radix sort of pairs, compared with the host's stable sort.
#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <numeric>

#include "check.h"

int main(int argc, char **argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 20000;
  const auto host = numbers(n, 5000);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  Device<int> keys(host), values(order), sorted_keys(n), sorted_values(n);
  size_t bytes = 0;
  for (char *scratch = nullptr;;) {
    OK(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys.at, sorted_keys.at, values.at, sorted_values.at, n));
    if (scratch) {
      OK(cudaFree(scratch));
      break;
    }
    OK(cudaMalloc(&scratch, bytes));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return host[a] < host[b]; });
  expect("values", sorted_values.host() == order);
  const auto got = sorted_keys.host();
  expect("keys", std::is_sorted(got.begin(), got.end()));
  return finish();
}

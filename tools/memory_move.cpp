#include "memory_move.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace fa::tool {
namespace {

using Clock = std::chrono::steady_clock;

/// Reads memory; the sum of its words keeps the compiler from leaving the loads out.
uint64_t sum_of(const std::byte *from, size_t bytes) {
  typedef uint64_t Words __attribute__((vector_size(32), aligned(1), may_alias));
  Words sums[4] = {};
  size_t at = 0;
  for (; at + sizeof sums <= bytes; at += sizeof sums) {
    const auto *words = reinterpret_cast<const Words *>(from + at);
    for (int i = 0; i < 4; ++i) sums[i] += words[i];
  }
  for (int i = 1; i < 4; ++i) sums[0] += sums[i];
  uint64_t sum = sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3];
  for (; at < bytes; ++at) sum += static_cast<uint64_t>(from[at]);
  return sum;
}

}  // namespace

double move_seconds(std::span<const MemoryMove> moves, int32_t threads) {
  constexpr size_t worth_a_thread = 64 << 10;
  size_t all = 0;
  for (const MemoryMove &each : moves) all += each.bytes;
  const auto count = std::clamp<size_t>(all / worth_a_thread, 1, static_cast<size_t>(std::max(threads, 1)));
  std::atomic<uint64_t> sink{0};
  std::atomic<size_t> ready{0};
  std::vector<Clock::time_point> begin(count), end(count);
  const auto body = [&](size_t thread) {
    ++ready;
    while (ready < count) std::this_thread::yield();
    begin[thread] = Clock::now();
    for (const MemoryMove &each : moves) {
      const size_t first = each.bytes / count * thread;
      const size_t bytes = thread + 1 == count ? each.bytes - first : each.bytes / count;
      const auto *from = static_cast<const std::byte *>(each.from) + first;
      if (each.to) {
        std::memcpy(static_cast<std::byte *>(each.to) + first, from, bytes);
      } else {
        sink += sum_of(from, bytes);
      }
    }
    end[thread] = Clock::now();
  };
  std::vector<std::thread> others;
  for (size_t thread = 1; thread < count; ++thread) others.emplace_back(body, thread);
  body(0);
  for (std::thread &other : others) other.join();
  return std::chrono::duration<double>(*std::max_element(end.begin(), end.end()) -
                                       *std::min_element(begin.begin(), begin.end()))
      .count();
}

}  // namespace fa::tool

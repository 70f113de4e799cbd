// The end of the last block against the sum of all work.
#include "driver/load_balance.h"

#include <algorithm>
#include <cstdio>

namespace fa::emu::driver {
namespace {

unsigned long long wide(uint64_t value) {
  return value;
}

}  // namespace

std::optional<LoadBalance> load_balance_of(const Launch &launch) {
  if (launch.shares.empty()) return {};
  const Multiprocessors &all = launch.multiprocessors();
  LoadBalance result;
  result.fewest = UINT64_MAX;
  double work = 0, speed = 0;
  const double places = static_cast<double>(std::max(launch.resident_ctas / all.usable(), 1u));
  for (uint32_t number = 0; number < all.usable(); number++) {
    const PacedShare &share = launch.shares[number];
    work += static_cast<double>(share.busy) / all.slowness(number);
    speed += places / all.slowness(number);
    result.end = std::max(result.end, share.end);
    result.fewest = std::min(result.fewest, share.blocks);
    result.most = std::max(result.most, share.blocks);
  }
  result.even = work / speed;
  return result;
}

void print(const Launch &launch, const LoadBalance &balance) {
  std::fprintf(stderr,
               "fa-emu:   %u multiprocessors of %u have room: %llu to %llu blocks on one, the last ends at %llu "
               "instructions, %.3f times as late as with even shares\n",
               launch.multiprocessors().usable(), launch.multiprocessors().count(), wide(balance.fewest),
               wide(balance.most), wide(balance.end), static_cast<double>(balance.end) / balance.even);
}

std::string json_of(const Launch &launch, const LoadBalance &balance) {
  std::string text = ",\"paced\":{\"end\":" + std::to_string(balance.end) +
                     ",\"even\":" + std::to_string(balance.even) + ",\"multiprocessors\":[";
  for (uint32_t number = 0; number < launch.multiprocessors().usable(); number++) {
    const PacedShare &share = launch.shares[number];
    text += std::string(number ? "," : "") + "{\"busy\":" + std::to_string(share.busy) +
            ",\"end\":" + std::to_string(share.end) + ",\"blocks\":" + std::to_string(share.blocks) + "}";
  }
  return text + "]}";
}

}  // namespace fa::emu::driver

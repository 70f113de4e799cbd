// Shared memory has 32 banks of 4 bytes; a request of more than 128 bytes takes several passes (wavefronts) at best.
// Global memory moves in sectors of 32 bytes.
#include "check/counters.h"

#include <algorithm>
#include <bit>

namespace fa::emu::check {
namespace {

constexpr uint32_t banks = 32, bank_bytes = 4, sector_bytes = 32;

/// Passes that these lanes' accesses take: the most different words that one bank has to give.
uint32_t passes(const Access &access, uint32_t mask) {
  uint64_t words[lanes * 4];
  uint32_t count = 0, bytes = std::max(access.bytes, 1u);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint64_t address = access.address[std::countr_zero(rest)];
    for (uint64_t word = address / bank_bytes; word <= (address + bytes - 1) / bank_bytes && count < lanes * 4; word++)
      words[count++] = word;
  }
  std::sort(words, words + count);
  count = static_cast<uint32_t>(std::unique(words, words + count) - words);
  uint32_t in_bank[banks] = {}, most = 0;
  for (uint32_t i = 0; i < count; i++) most = std::max(most, ++in_bank[words[i] % banks]);
  return most;
}

uint32_t sectors(const Access &access) {
  uint64_t touched[lanes * 5];
  uint32_t count = 0;
  for (uint32_t rest = access.mask; rest; rest &= rest - 1) {
    uint64_t address = access.address[std::countr_zero(rest)], last = (address + access.bytes - 1) / sector_bytes;
    for (uint64_t sector = address / sector_bytes; sector <= last && count < lanes * 5; sector++)
      touched[count++] = sector;
  }
  std::sort(touched, touched + count);
  return static_cast<uint32_t>(std::unique(touched, touched + count) - touched);
}

}  // namespace

void Counters::access(const Access &access) {
  bool reads = access.kind == AccessKind::read || access.kind == AccessKind::async_issue_read;
  if (access.kind == AccessKind::async_land || access.kind == AccessKind::async_end_read || access.bytes == 0) return;
  // Bulk copies do not go through the lanes' load and store paths: only bytes count.
  bool bulk = access.async_proxy || access.bytes > 32;
  uint64_t bytes = uint64_t{access.bytes} * static_cast<uint32_t>(std::popcount(access.mask));
  if (access.space == ptx::Space::shared) {
    (reads ? traffic_.shared_read : traffic_.shared_written) += bytes;
    if (!bulk) shared(access);
  }
  if (access.space == ptx::Space::global) {
    (reads ? traffic_.global_read : traffic_.global_written) += bytes;
    if (!bulk) global(access);
  }
}

/// Lanes with 16 bytes each go by quarters of a warp, with 8 bytes by halves.
void Counters::shared(const Access &access) {
  uint32_t parts = std::clamp(access.bytes / bank_bytes, 1u, 4u), width = lanes / parts;
  for (uint32_t part = 0; part < parts; part++) {
    uint32_t mask = access.mask & (parts == 1 ? all_lanes : ((1u << width) - 1) << (part * width));
    if (mask == 0) continue;
    traffic_.shared_passes += passes(access, mask);
    traffic_.shared_passes_least++;
  }
  traffic_.shared_requests++;
}

void Counters::global(const Access &access) {
  traffic_.global_requests++;
  traffic_.global_sectors += sectors(access);
}

void Counters::flush(Launch &launch) {
  std::lock_guard lock(launch.mutex);
  launch.traffic += traffic_;
  traffic_ = {};
}

}  // namespace fa::emu::check

// How many of a call's tiles have their keys split, and into how many splits, where nothing fixes it: by a small model
// of time. Its unit is the time of a thread block for a block of keys. perf/kernel-report reads it, too.
#pragma once

#include <algorithm>

#include "common/images.h"
#include "cuda/device.h"

namespace fa::cuda {

/// Bytes of keys and values that a block of Entry::decode gets through in a clock, by the simulated schedule of its
/// loop (perf/gpu-instruction-counts.md); and the part of it that memory may deliver to a multiprocessor before a
/// second block pays.
constexpr double decode_rate = 24, decode_slack = 0.75;

/// A block of threads but for its blocks of keys: until the first is there, and from the last one to its results. And
/// all of the second kernel.
constexpr double start_time = 2.3, combine_time = 2.4;

/// The time that a wave of partial results adds to these where a block's tile is large: they are twice as many bytes as
/// results, and the second kernel reads them again.
constexpr double partial_time = 1.6;

/// Splits are for keys of a few blocks at least.
constexpr int64_t fewest_blocks_to_split = 5;

/// Splits fill this many waves of blocks at most. The more waves, the fewer multiprocessors are idle in the last one,
/// if all tiles take the same time; memory for partial results sets the limit.
constexpr int64_t max_waves(const kernels::TileConfig &tile, bool is_even = true) {
  return tile.persistent && is_even ? 4 : 2;
}

/// Two launches take the place of one only where they are faster by more than the model may err.
constexpr double worth_two_launches = 0.95;

/// Upper bound: beyond it the combination costs more than splitting saves.
constexpr int64_t max_splits(const Device &device) {
  return int64_t{2} * device.sm_count;
}

/// Blocks that the device works on at once, as far as splits are for them. One of Entry::decode asks for as many keys
/// in advance as keep its multiprocessor's share of the memory busy, if it has this much shared memory: a second one
/// would only have more results to combine, unless memory is nearly as fast as one block.
constexpr int64_t max_active_blocks(kernels::Entry entry, const kernels::TileConfig &tile, const Device &device) {
  if (tile.persistent) return int64_t{device.sm_count} * tile.min_blocks_per_sm;
  constexpr int plenty = 48 << 10;
  const int64_t by_threads = device.threads_per_sm / tile.threads;
  const int64_t by_shared = device.shared_per_sm / std::max(tile.shared_bytes, 1);
  const bool one_is_enough = entry == kernels::Entry::decode && tile.shared_bytes >= plenty &&
                             device.memory_rate <= decode_slack * decode_rate;
  return device.sm_count * std::clamp<int64_t>(std::min(by_threads, by_shared), 1, one_is_enough ? 1 : 2);
}

/// The work that is split: tiles of all sequences and heads, and the blocks of keys of each. Splits share out all of
/// them, though a window may leave a tile few.
struct SplitProblem {
  kernels::Entry entry;
  kernels::TileConfig tile;
  int64_t tiles, key_blocks;
  int64_t attended_blocks = key_blocks;  // of a tile, at most
  bool is_even = false;                  // all tiles take about the same time

  /// The same of fewer tiles.
  constexpr SplitProblem of(int64_t fewer) const { return {entry, tile, fewer, key_blocks, attended_blocks, is_even}; }
};

constexpr int64_t blocks_of_split(const SplitProblem &w, int64_t splits) {
  return (w.key_blocks + splits - 1) / splits;
}

constexpr double time_of(const SplitProblem &w, const Device &device, int64_t splits) {
  const int64_t slots = max_active_blocks(w.entry, w.tile, device), waves = (w.tiles * splits + slots - 1) / slots;
  const int64_t longest = std::min(blocks_of_split(w, splits), w.attended_blocks);
  double time = static_cast<double>(waves) * (start_time + static_cast<double>(longest));
  if (w.entry == kernels::Entry::decode && device.memory_rate > 0) {
    const double keys = static_cast<double>(w.tiles) * static_cast<double>(w.attended_blocks);
    time = std::max(time, start_time + keys / device.sm_count * decode_rate / device.memory_rate);
  }
  if (splits == 1) return time;
  return time + combine_time + (w.tile.persistent ? static_cast<double>(waves) * partial_time : 0);
}

/// The number of splits that takes the least time: 1, or as many as fill a wave of blocks or several.
constexpr int64_t num_splits_heuristic(const SplitProblem &w, const Device &device) {
  int64_t best = 1;
  if (w.attended_blocks < fewest_blocks_to_split || w.tiles < 1) return best;
  for (int64_t waves = 1; waves <= max_waves(w.tile, w.is_even); waves++) {
    const int64_t slots = max_active_blocks(w.entry, w.tile, device);
    const int64_t room = std::min({max_splits(device), w.key_blocks, waves * slots / w.tiles});
    if (room < 2) continue;
    const int64_t splits = (w.key_blocks - 1) / blocks_of_split(w, room) + 1;  // those that have keys
    if (time_of(w, device, splits) < time_of(w, device, best)) best = splits;
  }
  return best;
}

/// The first tiles of a call, whose keys are not split, and the number of splits of the others' keys.
struct SplitChoice {
  int64_t unsplit_tiles, splits;
};

/// The choice that takes the least time. Of a persistent grid's even tiles, as many as fill whole waves are not split,
/// so that the few that are left do not keep a part of the multiprocessors busy as long as a wave.
constexpr SplitChoice choose_splits(const SplitProblem &w, const Device &device) {
  SplitChoice best = {0, num_splits_heuristic(w, device)};
  if (!w.tile.persistent || !w.is_even) return best;
  double min_time = worth_two_launches * time_of(w, device, best.splits);
  const int64_t slots = max_active_blocks(w.entry, w.tile, device), waves = w.tiles / slots;
  for (int64_t unsplit = waves * slots; unsplit > 0 && unsplit >= (waves - 1) * slots; unsplit -= slots) {
    const SplitProblem others = w.of(w.tiles - unsplit);
    const int64_t splits = num_splits_heuristic(others, device);
    const double time = time_of(w.of(unsplit), device, 1) + time_of(others, device, splits);
    if (splits > 1 && time < min_time) best = {unsplit, splits}, min_time = time;
  }
  return best;
}

}  // namespace fa::cuda

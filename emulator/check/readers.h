// Who has read a place: sets of epochs, those of a block's shared memory in one piece. An agent's place in a set
// follows from its number, so that the first look mostly finds it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <vector>

namespace fa::emu::check {

/// How many bytes of a cell are a lane's share, as a power of two. whole_cell: each lane has accessed all bytes.
constexpr uint32_t whole_cell = 4;

/// Reads of one warp at one clock.
struct ReadEpoch {
  uint32_t clock = 0;  // 0: none
  uint32_t lanes = 0;
  uint32_t pc = 0;
  uint32_t agent : 28 = 0;
  uint32_t share : 4 = whole_cell;
};

/// Sets have numbers that are not 0; add may give one another number. A set of one is a single epoch.
class ReaderSets {
 public:
  /// agents: how many there will be, as far as that is known.
  void begin(uint32_t agents) {
    min_width_ = agents > 4 ? 3 : 2;
    epochs_.clear();
    for (auto &sets : free_) sets.clear();
  }

  uint32_t make(const ReadEpoch &reader) {
    const uint32_t result = reserve(0);
    epochs_[first(result)] = reader;
    return result;
  }
  uint32_t copy(uint32_t set) {
    const uint32_t result = reserve(width(set));
    std::copy_n(epochs_.begin() + first(set), size(set), epochs_.begin() + first(result));
    return result;
  }
  void free(uint32_t set) { free_[width(set)].push_back(set); }

  /// The epoch of a set of one, else null.
  ReadEpoch *only(uint32_t set) { return width(set) == 0 ? &epochs_[first(set)] : nullptr; }

  /// The agent's epoch; where it has none, an empty one that becomes the agent's.
  ReadEpoch &add(uint32_t &set, uint32_t agent) {
    for (;;) {
      ReadEpoch *const epochs = &epochs_[first(set)];
      const uint32_t places = size(set) - 1;
      for (uint32_t i = 0; i <= places; i++) {
        ReadEpoch &epoch = epochs[(agent + i) & places];
        if (epoch.clock == 0 || epoch.agent == agent) return epoch;
      }
      set = wider(set);
    }
  }

  /// Calls f(epoch) for each until it returns false; whether none did.
  template <class F>
  bool all(uint32_t set, F &&f) const {
    const ReadEpoch *const epochs = &epochs_[first(set)];
    for (uint32_t i = 0; i < size(set); i++)
      if (epochs[i].clock != 0 && !f(epochs[i])) return false;
    return true;
  }
  template <class F>
  void change(uint32_t set, F &&f) {
    for (uint32_t i = first(set); i < first(set) + size(set); i++)
      if (epochs_[i].clock != 0) f(epochs_[i]);
  }

  /// Prefetches the first cells that add will look at.
  void prefetch(uint32_t set, uint32_t agent) const {
    __builtin_prefetch(&epochs_[first(set) + (agent & (size(set) - 1))], 1);
  }

 private:
  static constexpr uint32_t line = 4;  // epochs in a line of the cache

  template <class T>
  struct InLines {
    using value_type = T;
    static constexpr std::align_val_t alignment{line * sizeof(ReadEpoch)};
    T *allocate(size_t count) { return static_cast<T *>(::operator new(count * sizeof(T), alignment)); }
    void deallocate(T *memory, size_t) { ::operator delete(memory, alignment); }
    bool operator==(const InLines &) const = default;
  };

  // A number: where the epochs begin, plus 1; below it in four bits how many they are, as a power of two.
  static uint32_t number(uint32_t first, uint32_t width) { return (first + 1) << 4 | width; }
  static uint32_t width(uint32_t set) { return set & 15; }
  static uint32_t size(uint32_t set) { return 1u << width(set); }
  static uint32_t first(uint32_t set) { return (set >> 4) - 1; }

  uint32_t reserve(uint32_t wanted) {
    std::vector<uint32_t> &sets = free_[wanted];
    if (sets.empty()) {
      const uint32_t begin = static_cast<uint32_t>(epochs_.size()), each = 1u << wanted,
                     end = begin + std::max(line, each);
      epochs_.resize(end);
      for (uint32_t at = end; at > begin; at -= each) sets.push_back(number(at - each, wanted));
    }
    const uint32_t set = sets.back();
    sets.pop_back();
    std::fill_n(epochs_.begin() + first(set), size(set), ReadEpoch{});
    return set;
  }

  uint32_t wider(uint32_t set) {
    uint32_t result = reserve(std::max(width(set) + 1, min_width_));
    for (uint32_t i = 0; i < size(set); i++) {
      const ReadEpoch epoch = epochs_[first(set) + i];
      add(result, epoch.agent) = epoch;
    }
    free(set);
    return result;
  }

  uint32_t min_width_ = 2;  // width of sets of more than one
  std::vector<ReadEpoch, InLines<ReadEpoch>> epochs_;
  std::array<std::vector<uint32_t>, 16> free_;  // by width
};

}  // namespace fa::emu::check

// The multiprocessors of a device: which blocks they hold, and the columns of tensor memory that those share. Launches
// that run at the same time share them.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fa::emu {

struct Cta;

class Multiprocessors {
 public:
  /// How a device's differ from one another: the first ones are slow, the last ones are taken.
  struct Kinds {
    uint32_t count = 1;
    uint32_t taken = 0;  // by another kernel, as long as the process runs
    uint32_t slow = 0;   // half as fast as the others
  };

  void set_up(const Kinds &kinds);
  uint32_t count() const { return kinds_.count; }
  /// Those that have room for blocks.
  uint32_t usable() const { return kinds_.count - kinds_.taken; }
  /// The time of an instruction: 1, or 2 on a slow one.
  uint32_t slowness(uint32_t number) const { return number < kinds_.slow ? 2 : 1; }

  /// A multiprocessor for one more block: the next one with the least load. share: of it, as Room counts.
  uint32_t enter(uint64_t share);
  void leave(uint32_t number, uint64_t share);

  /// The lowest columns that are free on the block's multiprocessor; with a peer the same ones on the peer's, for it.
  /// Nothing where there are none: the block waits, as the report of a deadlock says.
  std::optional<uint32_t> allocate(const Cta &cta, const Cta *peer, uint32_t columns);
  void deallocate(const Cta &cta, uint32_t first, uint32_t columns);
  /// The block has ended without giving back its columns: nobody else gets them.
  void abandon(const Cta &cta);
  /// A launch has ended by a fault, or (0) its context is gone: all of its columns are free.
  void reset_columns(uint64_t grid);
  /// Who waits for columns, and who has them: sentences for the report of a deadlock; empty where nobody waits.
  std::string waiting_for_columns() const;

 private:
  struct Owner {
    const Cta *cta = nullptr;
    uint64_t grid = 0;
    std::string name;  // "block (0,0,0) of launch 3, kernel"
    bool ended = false;
  };
  struct Columns {
    uint32_t first, count;
    Owner owner;
  };
  struct Multiprocessor {
    uint64_t load = 0;
    std::vector<Columns> columns;
    std::vector<Columns> waiting;  // first: of no meaning
  };

  static Owner owner_of(const Cta &cta);
  bool is_free(uint32_t number, uint32_t first, uint32_t count) const;

  Kinds kinds_;
  mutable std::mutex mutex_;
  std::vector<Multiprocessor> all_ = std::vector<Multiprocessor>(1);
  uint32_t next_ = 0;
};

}  // namespace fa::emu

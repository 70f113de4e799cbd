// Checks of tensor memory (PTX ISA 9.7.16.6, memory consistency of tcgen05): mma and cp are over when a wait has seen
// their commit's signal, ld and st when tcgen05.wait has; between warps it takes tcgen05.fence on both sides of the
// synchronisation.
#pragma once

#include <vector>

#include "check/clocks.h"
#include "check/reporter.h"

namespace fa::emu::check {

class TensorMemory {
 public:
  TensorMemory(Reporter &reporter, Clocks &clocks) : reporter_(reporter), clocks_(clocks) {}
  void begin(const Cluster &cluster);
  void access(const Warp &warp, uint32_t agent, uint32_t pc, const TensorAccess &access);
  /// tcgen05.wait::ld or ::st of the warp.
  void wait(const Warp &warp, uint32_t agent, bool stores);
  /// The warp has used the result of the load there.
  void loaded(const Warp &warp, uint32_t agent, uint32_t pc);
  /// A warp's stores that nothing has waited for when its block ends.
  void end(const Cta &cta);

 private:
  struct Epoch {
    uint32_t agent = 0, clock = 0, pc = 0;  // clock 0: none
    uint32_t issued = 0;                    // of ld and st the clock of that, as clock is of their wait; else 0
    uint32_t pipe = 0;
  };
  /// Operations in flight on a cell, of one pipe or, with pipe 0, of one warp's ld and st.
  struct Pending {
    uint32_t pipe = 0, agent = 0, pc = 0, count = 0, issued = 0;
    bool writes = false;
  };
  /// 16 lanes of a column: no access has fewer.
  struct Cell {
    Epoch write;
    Epoch seen;  // the end of a load behind it, where nothing else has waited for the store
    bool written = false;
    std::vector<Epoch> reads;  // since
    std::vector<Pending> pending;
  };
  struct Issued {
    uint32_t pc = 0;
    TensorAccess access;
    uint32_t clock = 0;
  };
  struct Who {
    const Warp &warp;
    uint32_t agent, pc, pipe;
    bool gives_back;  // tcgen05.dealloc, which is not asynchronous: it needs no fences
    /// ld and st of the same lanes come one after another, with waits or without.
    bool moves() const { return pipe == 0 && !gives_back; }
  };

  void access(const Warp &warp, uint32_t agent, uint32_t pc, const TensorAccess &access, uint32_t issued);
  template <class F>
  void visit(const TensorAccess &access, F &&f);
  template <class F>
  void finish(const Warp &warp, uint32_t agent, F &&finished);
  void read(const Who &who, const Cell &cell, uint32_t column);
  void write(const Who &who, const Cell &cell, uint32_t column);
  void check_pending(const Who &who, const Cell &cell, uint32_t column, bool writes);
  void check_move(const Who &who, const Pending &one, uint32_t column, const char *does);
  void check_order(const Who &who, const Epoch &other, uint32_t column, const char *does, const char *did);
  static void remember_read(Cell &cell, const Epoch &epoch);
  static void end_stores_before(Cell &cell, const Pending &load, const Epoch &done);
  static bool take_pending(Cell &cell, const Pending &of);

  Reporter &reporter_;
  Clocks &clocks_;
  std::vector<std::vector<Cell>> memories_;  // by rank
  std::vector<std::vector<Issued>> issued_;  // ld and st in flight, by agent
};

}  // namespace fa::emu::check

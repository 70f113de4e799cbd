// The rules of each kind of access to tensor memory.
#include "check/tensor_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exec/tensor_memory.h"

namespace fa::emu::check {
namespace {

constexpr uint32_t cell_lanes = 16;
constexpr uint32_t lane_count = fa::emu::TensorMemory::lane_count, column_count = fa::emu::TensorMemory::column_count;

std::string where(uint32_t column) {
  return "column " + std::to_string(column) + " of tensor memory";
}

}  // namespace

void TensorMemory::begin(const Cluster &cluster) {
  memories_.assign(cluster.ctas.size(), {});
  issued_.assign(cluster.ctas.size() * cluster.ctas[0].warps.size(), {});
}

/// f(cell, column) for the cells of an access.
template <class F>
void TensorMemory::visit(const TensorAccess &access, F &&f) {
  std::vector<Cell> &cells = memories_[access.rank];
  if (cells.empty()) cells.resize(lane_count / cell_lanes * column_count);
  uint32_t end = (access.lane + access.lane_count + cell_lanes - 1) / cell_lanes;
  for (uint32_t row = access.lane / cell_lanes; row < end; row++)
    for (uint32_t column = access.column; column < access.column + access.column_count; column++)
      f(cells[row * column_count + column], column);
}

void TensorMemory::access(const Warp &warp, uint32_t agent, uint32_t pc, const TensorAccess &access) {
  this->access(warp, agent, pc, access, clocks_.now(agent));
}

/// issued: of ld and st, the agent's clock then.
void TensorMemory::access(const Warp &warp, uint32_t agent, uint32_t pc, const TensorAccess &access, uint32_t issued) {
  Who who{warp, agent, pc, access.pipe, access.kind == AccessKind::write};
  Epoch done{agent, 0, pc, who.moves() ? issued : 0, access.pipe};
  bool ends = access.kind == AccessKind::async_land || access.kind == AccessKind::async_end_read;
  if (ends && access.key != 0) done.agent = clocks_.complete(access.key);
  done.clock = clocks_.now(done.agent);
  bool writes = access.kind == AccessKind::async_issue_write || access.kind == AccessKind::async_land;
  Pending pending{access.pipe, agent, pc, 1, issued, writes};
  visit(access, [&](Cell &cell, uint32_t column) {
    switch (access.kind) {
      case AccessKind::async_issue_read:
      case AccessKind::async_issue_write: {
        writes ? write(who, cell, column) : read(who, cell, column);
        if (writes) cell.reads.clear();
        Pending *last = cell.pending.empty() ? nullptr : &cell.pending.back();
        if (last && last->pipe == pending.pipe && last->agent == agent && last->pc == pc && last->writes == writes)
          last->count++, last->issued = issued;
        else
          cell.pending.push_back(pending);
        if (writes && who.moves()) cell.write = done, cell.seen = {};
        return;
      }
      case AccessKind::async_land:
        if (!take_pending(cell, pending)) return;
        cell.written = true;
        // A later store may have come in between.
        if (who.moves() && (cell.write.agent != agent || cell.write.pc != pc)) return;
        cell.write = done;
        cell.seen = {};
        return;
      case AccessKind::async_end_read:
        if (who.moves()) end_stores_before(cell, pending, done);
        if (take_pending(cell, pending)) remember_read(cell, done);
        return;
      default:
        // Given back.
        write(who, cell, column);
        cell = {};
        return;
    }
  });
  if (access.pipe == 0 && access.kind != AccessKind::write && !ends) issued_[agent].push_back({pc, access, issued});
}

/// Ends those of the agent's ld and st of which finished(issued, whether it is a store) says so.
template <class F>
void TensorMemory::finish(const Warp &warp, uint32_t agent, F &&finished) {
  std::vector<Issued> &all = issued_[agent];
  std::vector<Issued> rest;
  for (Issued &one : std::exchange(all, {})) {
    bool store = one.access.kind == AccessKind::async_issue_write;
    if (!finished(one, store)) {
      rest.push_back(one);
      continue;
    }
    one.access.kind = store ? AccessKind::async_land : AccessKind::async_end_read;
    access(warp, agent, one.pc, one.access, one.clock);
  }
  all = std::move(rest);
}

void TensorMemory::wait(const Warp &warp, uint32_t agent, bool stores) {
  finish(warp, agent, [&](const Issued &, bool store) { return store == stores; });
}

void TensorMemory::loaded(const Warp &warp, uint32_t agent, uint32_t pc) {
  finish(warp, agent, [&](const Issued &one, bool store) { return !store && one.pc == pc; });
}

void TensorMemory::end(const Cta &cta) {
  for (const Warp &warp : cta.warps)
    for (const Issued &one : issued_[cta.rank * cta.warps.size() + warp.index])
      if (one.access.kind == AccessKind::async_issue_write)
        reporter_.report(Violation::unwaited, warp, one.pc, no_pc, -1,
                         [] { return "the block ends, and no tcgen05.wait::st has waited for this store"; });
}

void TensorMemory::read(const Who &who, const Cell &cell, uint32_t column) {
  check_pending(who, cell, column, false);
  auto writes = [](const Pending &one) { return one.writes; };
  if (!cell.written && std::none_of(cell.pending.begin(), cell.pending.end(), writes))
    reporter_.report(Violation::uninitialised_memory, who.warp, who.pc, no_pc, -1,
                     [&] { return "reads " + where(column) + ", which was never written"; });
  check_order(who, cell.write, column, "reads", "written");
  if (!who.moves()) check_order(who, cell.seen, column, "reads", "stored to and loaded");
}

void TensorMemory::write(const Who &who, const Cell &cell, uint32_t column) {
  check_pending(who, cell, column, true);
  check_order(who, cell.write, column, "writes", "written");
  if (!who.moves()) check_order(who, cell.seen, column, "writes", "stored to and loaded");
  for (const Epoch &reader : cell.reads) check_order(who, reader, column, "writes", "read");
}

void TensorMemory::check_pending(const Who &who, const Cell &cell, uint32_t column, bool writes) {
  for (const Pending &one : cell.pending) {
    // A pipe works in the order of its instructions.
    if ((who.pipe && one.pipe == who.pipe) || (!writes && !one.writes)) continue;
    if (who.moves() && one.pipe == 0) {
      check_move(who, one, column, writes ? "writes " : "reads ");
      continue;
    }
    reporter_.report(Violation::pending_tensor_operation, who.warp, who.pc, one.pc, -1, [&] {
      return std::string(writes ? "writes " : "reads ") + where(column) + ", which the operation of " +
             reporter_.line(one.pc) + " still " + (one.writes ? "writes" : "reads") + ": nothing has waited for it";
    });
  }
}

void TensorMemory::check_move(const Who &who, const Pending &one, uint32_t column, const char *does) {
  if (!one.writes) return check_order(who, {one.agent, one.issued, one.pc, one.issued, 0}, column, "writes", "read");
  reporter_.report(Violation::unwaited_store, who.warp, one.pc, one.pc, -1, [&] {
    return reporter_.line(who.pc) + " " + does + where(column) +
           " behind this store, which no tcgen05.wait::st has waited for: accesses of the same lanes keep their order, "
           "which the PTX ISA does not promise";
  });
}

void TensorMemory::check_order(const Who &who, const Epoch &other, uint32_t column, const char *does, const char *did) {
  // A pipe keeps the order of its operations.
  if (who.pipe && other.pipe == who.pipe) return;
  uint32_t clock = who.moves() && other.issued ? other.issued : other.clock;
  if (clock == 0 || clocks_.reaches_tensor(who.agent, other.agent, clock)) return;
  bool fence = clocks_.reaches(who.agent, other.agent, clock);
  if (fence && who.gives_back) return;
  reporter_.report(
      fence ? Violation::missing_tensor_fence : Violation::tensor_race, who.warp, who.pc, other.pc, -1, [&] {
        return std::string(does) + " " + where(column) + ", " + did + " at " + reporter_.line(other.pc) + ", without " +
               (fence
                    ? "tcgen05.fence::before_thread_sync and ::after_thread_sync on the sides of their synchronisation"
                    : "synchronisation between");
      });
}

void TensorMemory::remember_read(Cell &cell, const Epoch &epoch) {
  for (Epoch &one : cell.reads)
    if (one.agent == epoch.agent) {
      one = epoch;
      return;
    }
  cell.reads.push_back(epoch);
}

/// A load that is over has seen the stores before it: operations behind it are ordered behind them.
void TensorMemory::end_stores_before(Cell &cell, const Pending &load, const Epoch &done) {
  auto found = std::find_if(cell.pending.begin(), cell.pending.end(), [&](const Pending &one) {
    return one.pipe == 0 && one.agent == load.agent && one.pc == load.pc && !one.writes;
  });
  if (found == cell.pending.end()) return;
  auto store = [](const Pending &one) { return one.pipe == 0 && one.writes; };
  if (std::any_of(cell.pending.begin(), found, store)) cell.written = true, cell.seen = done;
  cell.pending.erase(std::remove_if(cell.pending.begin(), found, store), found);
}

/// Takes one operation of the same kind out; false where none is left.
bool TensorMemory::take_pending(Cell &cell, const Pending &of) {
  for (size_t i = 0; i < cell.pending.size(); i++) {
    Pending &one = cell.pending[i];
    if (one.pipe != of.pipe || one.agent != of.agent || one.pc != of.pc || one.writes != of.writes) continue;
    if (--one.count == 0) cell.pending.erase(cell.pending.begin() + static_cast<ptrdiff_t>(i));
    return true;
  }
  return false;
}

}  // namespace fa::emu::check

// A kernel launch: shape, parameters, limits, and its outcome.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "exec/cta.h"
#include "exec/fault.h"
#include "exec/finding.h"
#include "exec/multiprocessors.h"
#include "exec/program.h"

namespace fa::emu {

namespace memory {
class DeviceHeap;
}

namespace check {
class Timeline;
struct Footprint;
}  // namespace check

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {1, 1, 1};
  uint32_t dynamic_shared = 0;

  /// The grid index of the first block of cluster n.
  void first_block(uint64_t n, uint32_t (&id)[3]) const;
};

/// In which order the clusters of a grid begin. CUDA promises none; GPUs mostly go by their numbers.
enum class Starts : uint8_t { ascending, reversed, shuffled };

/// How to run; the same for all launches of a process.
struct RunOptions {
  uint32_t threads = 0;  // of the host; 0: as many as there are cores, or one where results depend on who is first
  uint64_t seed = 0;     // 0: in order; else schedules and landings vary with it
  Starts starts = Starts::ascending;
  bool check = false;     // decode for and attach the checks
  bool count = false;     // decode for and attach memory counters
  double timeout = 0;     // seconds after which a launch fails; 0: none
  double progress = 0;    // seconds between calls of Launch::progressed; 0: none
  bool timeline = false;  // decode for and attach the recorder of the warps' activity
  bool observed() const { return check || count || timeline; }
};

/// A device's room for blocks, shared by the launches that run on it at the same time.
struct Room {
  static constexpr uint64_t whole = uint64_t{1} << 40;
  std::atomic<uint64_t> taken{0};  // of the whole
  Multiprocessors multiprocessors;
};

/// The work of a paced launch on one multiprocessor. Times are those of warp instructions on one that is not slow.
struct PacedShare {
  uint64_t busy = 0, end = 0;  // the time that its blocks took, and when the last of them ended
  uint64_t blocks = 0;
};

/// The verdict on a launch none of whose blocks can go on.
enum class Verdict : uint8_t {
  again,     // others may yet end its wait
  deadlock,  // nobody will
  end,       // it is to end, without a fault
};

/// Memory traffic of a launch, where RunOptions::count asks for it. Bytes as the lanes ask for them.
struct Traffic {
  uint64_t shared_read = 0, shared_written = 0;      // bytes
  uint64_t shared_requests = 0;                      // warp instructions
  uint64_t shared_passes = 0;                        // over the banks
  uint64_t shared_passes_least = 0;                  // without conflicts
  uint64_t global_read = 0, global_written = 0;      // bytes
  uint64_t global_requests = 0, global_sectors = 0;  // of 32 bytes
  Traffic &operator+=(const Traffic &other);
};

struct Launch {
  std::shared_ptr<const Program> program;
  LaunchShape shape;
  RunOptions options;
  std::vector<uint8_t> parameters;
  std::shared_ptr<const memory::RangeTable> ranges;
  uint32_t resident_ctas = 1;                   // that the device holds at once, over all SMs
  bool paced = false;                           // multiprocessors run side by side, each at its own speed
  bool short_mma = false, short_wgmma = false;  // sums of 8-bit floating point products: see short_sum.h
  uint32_t registers = 0;                       // a thread, that the kernel's machine code has; 0: it has none
  uint64_t grid_number = 0;
  uint64_t grid_workspace = 0;         // of a cooperative launch: zeroed memory that its barrier counts in
  memory::DeviceHeap *heap = nullptr;  // of malloc in kernels; null: they get nothing
  std::function<std::unique_ptr<Observer>(Launch &)> make_observer;  // null: none
  std::function<void(const std::string &)> print;                    // vprintf's output; null: stdout

  // Concurrent launches; null: none. Without room for them it has a separate device.
  Room *room = nullptr;
  std::atomic<uint64_t> *progress = nullptr;  // counts whenever anything that runs gets on
  std::function<Verdict(uint64_t)> blocked;   // asked when nothing of it can go on, as of that progress
  std::function<void()> company;              // called when it has run for long and may be waiting for another kernel
  std::function<bool()> prerequisites;        // whether the launches that griddepcontrol.wait waits for are done
  std::function<void()> triggered;            // called when every block has let dependents start, or ended
  std::function<void()> progressed;           // called now and then while it runs
  const std::atomic<uint32_t> *interrupts = nullptr;  // requests so far to report where its warps are
  std::function<void()> on_positions;                 // called when that is known, in `positions`
  std::atomic<bool> late{false};  // code after griddepcontrol.launch_dependents runs as late as it can
  std::atomic<bool> held{false};  // some block is, by that

  // Filled by run.
  std::vector<ExecutionCount> counts;           // by program counter
  std::shared_ptr<check::Timeline> timeline;    // where RunOptions asks for it
  Findings findings;                            // of checks, which do not end the launch
  std::function<check::Footprint()> footprint;  // of its global memory, once; empty: nobody watched
  Traffic traffic;
  double seconds = 0;

  uint64_t cluster_size() const { return uint64_t{shape.cluster[0]} * shape.cluster[1] * shape.cluster[2]; }
  uint64_t cluster_count() const { return uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2] / cluster_size(); }
  uint64_t cta_count() const { return cluster_count() * cluster_size(); }
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); }
  bool all_begun() const { return next_cluster >= cluster_count(); }
  Multiprocessors &multiprocessors() { return (room ? room : &own_room)->multiprocessors; }
  const Multiprocessors &multiprocessors() const { return (room ? room : &own_room)->multiprocessors; }
  /// The number of the cluster that begins as this one of all.
  uint64_t cluster_at(uint64_t place) const;
  /// Takes a cluster that has not begun out of the grid: its number, or nothing where none is left.
  std::optional<uint64_t> take_cluster();
  /// This many more blocks have let dependents start, or ended without.
  void trigger(uint64_t blocks);

  std::atomic<uint64_t> tensor_operations{0};  // of tcgen05.mma; those of other instructions are in their names
  std::atomic<uint64_t> next_cluster{0};       // place in the order in which they begin
  std::vector<uint64_t> shuffled;              // cluster numbers in that order; empty: options.starts says it
  std::atomic<uint64_t> ended_clusters{0};     // those that were taken out of the grid among them
  std::atomic<uint64_t> executed{0};           // warp instructions
  std::atomic<uint64_t> resident{0};
  std::atomic<uint64_t> own_progress{0};  // where progress is null
  std::atomic<uint64_t> triggers{0};      // blocks, see trigger
  std::atomic<uint32_t> working{0};       // threads
  uint32_t idle = 0;                      // of them, those that find nothing to do since idle_as_of; under the mutex
  uint64_t idle_as_of = 0;                // a value of progress
  std::vector<BlockPosition> positions;   // under the mutex
  uint32_t interrupt = 0;                 // the last one that workers looked at; under the mutex
  bool collecting = false;                // its report is to come; under the mutex
  std::atomic<uint32_t> reported{0};      // workers that have said for it where their warps are
  std::atomic<bool> overdue{false};
  std::atomic<double> next_progress{0};  // seconds since the begin
  std::chrono::steady_clock::time_point begun;
  std::atomic<bool> stop{false};
  std::mutex mutex;

  Room own_room;  // where room is null
  // Filled by run.
  std::map<uint32_t, uint64_t> polls;  // by program counter: see Cluster
  std::vector<uint64_t> skipped;       // likewise
  std::vector<PacedShare> shares;      // by multiprocessor, of a paced launch
};

/// Runs the launch to its end on all host threads; the fault that ended it early, if one did.
std::optional<Fault> run(Launch &launch);

}  // namespace fa::emu

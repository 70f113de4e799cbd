// A thread that runs a grid: it holds some clusters and steps them one after another. A cluster that cannot go on by
// itself (it spins on a flag, waits for the whole grid) makes room for the next one, up to as many as the device holds
// at once.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "exec/grid_dependency.h"
#include "exec/launch.h"

namespace fa::emu {

class Worker {
 public:
  explicit Worker(Launch &launch)
      : launch_(launch),
        interrupt_(launch.interrupts ? launch.interrupts->load() : 0),
        progress_(launch.progress ? *launch.progress : launch.own_progress),
        room_(std::min(launch.cluster_size() * (Room::whole / std::max(launch.resident_ctas, 1u)), Room::whole)) {
    launch_.working++;
  }
  ~Worker() {
    set_idle(false);
    launch_.working--;
    for (auto &cluster : resident_) leave(cluster.get());
  }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  void run() {
    while (!launch_.stop) {
      handle_requests();
      if (launch_.paced) fill();
      if (!resident_.empty() || admit()) {
        launch_.paced ? run_paced() : run_slice();
      } else if (launch_.all_begun() || launch_.resident > 0) {
        break;
      } else {
        wait_for_room();
      }
    }
    if (launch_.overdue) {
      std::lock_guard lock(launch_.mutex);
      collect_positions();
    }
    add_counts();
  }

 private:
  static constexpr uint64_t slice = 1 << 20;  // instructions of a cluster before another one has a turn
  static constexpr uint64_t turns_until_company = 8;
  static constexpr uint64_t paced_slice = 1 << 12;  // the same where launches are paced
  static constexpr uint64_t paced_turns_until_company = turns_until_company * (slice / paced_slice);
  static constexpr uint64_t idle_rounds_until_deadlock = 4;  // turns of every cluster of a worker
  static constexpr uint32_t blocked_pause = 50;              // microseconds until another look at the others' progress
  static constexpr uint32_t report_pause = 1000;             // microseconds
  static constexpr int report_pauses = 500;

  /// Room on the device for one more cluster.
  bool enter() {
    if (!launch_.room || launch_.room->taken.fetch_add(room_) + room_ <= Room::whole) return true;
    launch_.room->taken -= room_;
    return false;
  }
  /// cluster: null where none has begun.
  void leave(Cluster *cluster) {
    if (cluster) cluster->leave();
    launch_.resident -= launch_.cluster_size();
    if (launch_.room) launch_.room->taken -= room_;
  }

  /// Takes the grid's next cluster where the device has room for it.
  bool admit() {
    uint64_t size = launch_.cluster_size(), others = launch_.resident.fetch_add(size);
    bool fits = others == 0 || others + size <= launch_.resident_ctas;
    if (!fits || launch_.all_begun() || !enter()) {
      launch_.resident -= size;
      return false;
    }
    uint64_t place = launch_.next_cluster++;
    if (place >= launch_.cluster_count()) {
      leave(nullptr);
      return false;
    }
    if (!spare_.empty()) {
      resident_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    } else {
      resident_.push_back(std::make_unique<Cluster>());
    }
    resident_.back()->begin(launch_, launch_.cluster_at(place), room_ / launch_.cluster_size());
    resident_.back()->clock = now_;
    return true;
  }

  /// Runs a cluster for a slice of instructions.
  void run_slice() {
    bool varied = launch_.options.seed != 0;
    if (varied && resident_[0]->random() % 4 == 0) admit();
    // Where no cluster makes progress, each has its turn.
    bool any = varied && idle_turns_ == 0;
    at_ = any ? resident_[0]->random() % resident_.size() : at_ % resident_.size();
    Cluster &cluster = *resident_[at_];
    uint64_t before = cluster.executed;
    Step step = cluster.step(varied ? 1 + cluster.random() % slice : slice);
    launch_.executed += cluster.executed - before;
    if (step == Step::stuck) return handle_stuck(cluster);
    progress_++;
    set_idle(false);
    if (step == Step::running) {
      // It may wait, in a way that is not recognised, for memory that another one has yet to write.
      if (++running_turns_ % turns_until_company == 0 && !admit() && launch_.company) launch_.company();
      at_++;
      return;
    }
    end(cluster);
  }

  /// The cluster, which has its turn, has ended.
  void end(Cluster &cluster) {
    leave(&cluster);
    launch_.ended_clusters++;
    end_triggers(cluster);
    spare_.push_back(std::move(resident_[at_]));
    resident_.erase(resident_.begin() + static_cast<ptrdiff_t>(at_));
  }

  /// Lets clusters begin on all multiprocessors that have room.
  void fill() {
    while (admit()) {
    }
  }

  /// Runs the cluster whose clock is behind those of all others, so that their effects on one another come in the order
  /// that it has on multiprocessors of these speeds. One that waits has its turn again when another one has got on.
  void run_paced() {
    size_t chosen = resident_.size();
    for (size_t i = 0; i < resident_.size(); i++)
      if (!resident_[i]->waits && (chosen == resident_.size() || resident_[i]->clock < resident_[chosen]->clock))
        chosen = i;
    if (chosen == resident_.size()) {  // all wait: one after another looks again
      at_ = at_ < resident_.size() ? at_ : 0;
      chosen = at_;
    }
    at_ = chosen;
    Cluster &cluster = *resident_[chosen];
    const uint64_t before = cluster.executed;
    const Step step = cluster.step(paced_slice);
    const uint64_t ran = cluster.executed - before;
    launch_.executed += ran;
    uint64_t took = 0;
    for (const Cta &cta : cluster.ctas)
      took = std::max<uint64_t>(took, launch_.multiprocessors().slowness(cta.multiprocessor));
    took = took * ran / cluster.ctas.size();
    cluster.clock += took;
    for (const Cta &cta : cluster.ctas) launch_.shares[cta.multiprocessor].busy += took;
    if (step == Step::stuck) {
      cluster.waits = true;
      return handle_stuck(cluster);
    }
    progress_++;
    set_idle(false);
    for (auto &other : resident_)
      if (std::exchange(other->waits, false)) other->clock = std::max(other->clock, cluster.clock);
    if (step == Step::running) {
      if (++running_turns_ % paced_turns_until_company == 0 && launch_.company) launch_.company();
      return;
    }
    now_ = cluster.clock;
    for (const Cta &cta : cluster.ctas) {
      PacedShare &share = launch_.shares[cta.multiprocessor];
      share.end = std::max(share.end, now_);
      share.blocks++;
    }
    end(cluster);
  }

  /// After a turn without progress: another cluster, or at last a deadlock.
  void handle_stuck(const Cluster &cluster) {
    if (admit()) {
      at_ = resident_.size() - 1;
      return;
    }
    at_++;
    look_at_progress();
    if (at_ >= resident_.size()) std::this_thread::yield();
    if (++idle_turns_ < idle_rounds_until_deadlock * resident_.size()) return;
    set_idle(true);
    if (!all_idle() || judge() == Verdict::again) return;
    const Warp &warp = first_waiting(cluster);
    throw make_fault(warp, launch_.program->code[warp.groups[0].pc - (warp.groups[0].state == GroupState::blocked)],
                     FaultKind::deadlock, -1,
                     "nothing can go on: " + cluster.where() + launch_.multiprocessors().waiting_for_columns());
  }

  /// No block of the launch has begun, as others fill the device.
  void wait_for_room() {
    look_at_progress();
    set_idle(true);
    if (all_idle())
      judge();
    else
      usleep(blocked_pause);
  }

  void look_at_progress() {
    uint64_t progress = progress_;
    if (progress != std::exchange(seen_progress_, progress)) set_idle(false);
  }

  /// Whether this is a deadlock: only the queue, which knows all that is running, can decide.
  Verdict judge() {
    Verdict verdict = launch_.blocked ? launch_.blocked(seen_progress_) : Verdict::deadlock;
    if (verdict == Verdict::end) launch_.stop = true;
    if (verdict == Verdict::deadlock) return verdict;
    usleep(blocked_pause);
    return Verdict::again;
  }

  /// A worker is idle as of some progress: after another worker's progress its clusters may have some, too.
  void set_idle(bool idle) {
    if (!idle) idle_turns_ = 0;
    if (idle && idle_ && idle_as_of_ == seen_progress_) return;
    if (!idle && !idle_) return;
    std::lock_guard lock(launch_.mutex);
    if (idle_ && launch_.idle_as_of == idle_as_of_) launch_.idle--;
    idle_ = idle;
    if (!idle) return;
    if (launch_.idle_as_of < seen_progress_) launch_.idle_as_of = seen_progress_, launch_.idle = 0;
    idle_as_of_ = seen_progress_;
    if (launch_.idle_as_of == idle_as_of_) launch_.idle++;
  }

  bool all_idle() {
    std::lock_guard lock(launch_.mutex);
    return launch_.idle == launch_.working && launch_.idle_as_of == progress_;
  }

  /// Handles requests to a running launch.
  void handle_requests() {
    if (launch_.interrupts && launch_.interrupts->load(std::memory_order_relaxed) != interrupt_) report_positions();
    const RunOptions &options = launch_.options;
    if (options.timeout == 0 && options.progress == 0) return;
    double now = launch_.elapsed(), next = launch_.next_progress;
    if (options.progress > 0 && now >= next &&
        launch_.next_progress.compare_exchange_strong(next, now + options.progress))
      launch_.progressed();
    if (options.timeout == 0 || now <= options.timeout) return;
    launch_.overdue = true;  // before other workers see that they are to stop
    launch_.stop = true;
  }

  /// Says where the warps of this worker's clusters are. Under the mutex.
  void collect_positions() {
    for (const auto &cluster : resident_) cluster->collect_positions(launch_.positions);
    launch_.reported++;
  }

  /// The first to see an interrupt waits for the others, some of which may be about to end. The report is made once:
  /// who comes after it is left out.
  void report_positions() {
    {
      std::lock_guard lock(launch_.mutex);
      const uint32_t interrupt = launch_.collecting ? launch_.interrupt : launch_.interrupts->load();
      const bool seen = launch_.interrupt == interrupt;
      if (interrupt_ == interrupt || (seen && !launch_.collecting)) {
        interrupt_ = interrupt;
        return;
      }
      interrupt_ = interrupt;
      if (!seen) launch_.interrupt = interrupt, launch_.collecting = true, launch_.reported = 0;
      collect_positions();
      if (seen) return;
    }
    for (int i = 0; i < report_pauses && launch_.reported < launch_.working; i++) usleep(report_pause);
    std::lock_guard lock(launch_.mutex);
    launch_.on_positions();
    launch_.collecting = false;
    launch_.positions.clear();
  }

  static const Warp &first_waiting(const Cluster &cluster) {
    for (const Cta &cta : cluster.ctas)
      for (const Warp &warp : cta.warps)
        if (!warp.finished()) return warp;
    return cluster.ctas[0].warps[0];
  }

  void add_counts() {
    std::lock_guard lock(launch_.mutex);
    launch_.counts.resize(launch_.program->code.size());
    launch_.skipped.resize(launch_.program->code.size());
    for (auto *list : {&resident_, &spare_})
      for (const auto &cluster : *list) {
        for (const auto &[pc, turns] : cluster->polls) launch_.polls[pc] += turns;
        ExecutionCount straight;
        for (size_t pc = 0; pc < cluster->skipped.size(); pc++) launch_.skipped[pc] += cluster->skipped[pc];
        for (size_t pc = 0; pc < cluster->counts.size(); pc++) {
          straight.warps += cluster->passes[pc].warps;
          straight.lanes += cluster->passes[pc].lanes;
          launch_.counts[pc].warps += cluster->counts[pc].warps + straight.warps;
          launch_.counts[pc].lanes += cluster->counts[pc].lanes + straight.lanes;
        }
      }
  }

  Launch &launch_;
  uint32_t interrupt_;  // the last one that it has reported for
  std::atomic<uint64_t> &progress_;
  const uint64_t room_;  // that a cluster takes, of Room::whole
  std::vector<std::unique_ptr<Cluster>> resident_, spare_;
  size_t at_ = 0;
  uint64_t idle_turns_ = 0, seen_progress_ = 0, idle_as_of_ = 0;
  uint64_t running_turns_ = 0;
  uint64_t now_ = 0;  // of a paced launch: when the last cluster ended, in whose place another one may begin
  bool idle_ = false;
};

}  // namespace fa::emu

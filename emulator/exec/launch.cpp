// Running a grid: every worker thread holds some clusters and steps them in turn. A cluster that cannot go on by itself
// (it spins on a flag, waits for the whole grid) makes room for the next one, up to what the device holds at once.
#include "exec/launch.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "exec/grid_dependency.h"
#include "exec/helpers.h"

namespace fa::emu {
namespace {

constexpr uint64_t slice = 1 << 20;  // instructions of a cluster before another one has a turn
constexpr uint64_t turns_until_company = 8;
constexpr uint64_t idle_rounds_until_deadlock = 4;  // turns of every cluster of a worker
constexpr size_t most_reports = 1000;
constexpr uint32_t blocked_pause = 50;  // microseconds until another look at what others have done

uint32_t core_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<uint32_t>(std::max(CPU_COUNT(&set), 1));
  return std::max(std::thread::hardware_concurrency(), 1u);
}

class Worker {
 public:
  explicit Worker(Launch &launch)
      : launch_(launch),
        progress_(launch.progress ? *launch.progress : launch.own_progress),
        room_(std::min(launch.cluster_size() * (Room::whole / std::max(launch.resident_ctas, 1u)), Room::whole)) {
    launch_.working++;
  }
  ~Worker() {
    set_idle(false);
    launch_.working--;
    for (size_t i = 0; i < resident_.size(); i++) leave();
  }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  void run() {
    while (!launch_.stop) {
      if (!resident_.empty() || admit()) {
        turn();
      } else if (launch_.all_begun() || launch_.resident > 0) {
        break;
      } else {
        wait_for_room();
      }
    }
    add_counts();
  }

 private:
  /// Room on the device for one more cluster.
  bool enter() {
    if (!launch_.room || launch_.room->taken.fetch_add(room_) + room_ <= Room::whole) return true;
    launch_.room->taken -= room_;
    return false;
  }
  void leave() {
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
    uint64_t number = launch_.next_cluster++;
    if (number >= launch_.cluster_count()) {
      leave();
      return false;
    }
    if (!spare_.empty()) {
      resident_.push_back(std::move(spare_.back()));
      spare_.pop_back();
    } else {
      resident_.push_back(std::make_unique<Cluster>());
    }
    resident_.back()->begin(launch_, number);
    return true;
  }

  void turn() {
    bool varied = launch_.options.seed != 0;
    if (varied && resident_[0]->random() % 4 == 0) admit();
    // Where nothing gets on, every cluster has its turn.
    bool any = varied && idle_turns_ == 0;
    at_ = any ? resident_[0]->random() % resident_.size() : at_ % resident_.size();
    Cluster &cluster = *resident_[at_];
    Step step = cluster.step(varied ? 1 + cluster.random() % slice : slice);
    if (step == Step::stuck) return stuck(cluster);
    progress_++;
    set_idle(false);
    if (step == Step::running) {
      // It may wait, in a way that is not recognised, for what another one has yet to write.
      if (++running_turns_ % turns_until_company == 0 && !admit() && launch_.company) launch_.company();
      at_++;
      return;
    }
    leave();
    end_triggers(cluster);
    spare_.push_back(std::move(resident_[at_]));
    resident_.erase(resident_.begin() + static_cast<ptrdiff_t>(at_));
  }

  void stuck(const Cluster &cluster) {
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
                     FaultKind::deadlock, -1, "nothing can go on: " + cluster.where());
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

  /// Whether this is a deadlock, which only those can tell that know what else runs.
  Verdict judge() {
    Verdict verdict = launch_.blocked ? launch_.blocked(seen_progress_) : Verdict::deadlock;
    if (verdict == Verdict::end) launch_.stop = true;
    if (verdict == Verdict::deadlock) return verdict;
    usleep(blocked_pause);
    return Verdict::again;
  }

  /// A worker is idle as of some progress: when another one gets on, its clusters may, too.
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

  static const Warp &first_waiting(const Cluster &cluster) {
    for (const Cta &cta : cluster.ctas)
      for (const Warp &warp : cta.warps)
        if (!warp.finished()) return warp;
    return cluster.ctas[0].warps[0];
  }

  void add_counts() {
    std::lock_guard lock(launch_.mutex);
    launch_.counts.resize(launch_.program->code.size());
    for (auto *list : {&resident_, &spare_})
      for (const auto &cluster : *list) {
        ExecutionCount straight;
        for (size_t pc = 0; pc < cluster->counts.size(); pc++) {
          straight.warps += cluster->passes[pc].warps;
          straight.lanes += cluster->passes[pc].lanes;
          launch_.counts[pc].warps += cluster->counts[pc].warps + straight.warps;
          launch_.counts[pc].lanes += cluster->counts[pc].lanes + straight.lanes;
        }
      }
  }

  Launch &launch_;
  std::atomic<uint64_t> &progress_;
  const uint64_t room_;  // that a cluster takes, of Room::whole
  std::vector<std::unique_ptr<Cluster>> resident_, spare_;
  size_t at_ = 0;
  uint64_t idle_turns_ = 0, seen_progress_ = 0, idle_as_of_ = 0;
  uint64_t running_turns_ = 0;
  bool idle_ = false;
};

}  // namespace

std::atomic<size_t> helper_threads = 0;

Traffic &Traffic::operator+=(const Traffic &other) {
  shared_read += other.shared_read;
  shared_written += other.shared_written;
  shared_requests += other.shared_requests;
  shared_passes += other.shared_passes;
  shared_passes_least += other.shared_passes_least;
  global_read += other.global_read;
  global_written += other.global_written;
  global_requests += other.global_requests;
  global_sectors += other.global_sectors;
  return *this;
}

void LaunchShape::first_block(uint64_t n, uint32_t (&id)[3]) const {
  for (int d = 0; d < 3; d++) {
    uint32_t clusters = grid[d] / cluster[d];
    id[d] = static_cast<uint32_t>(n % clusters) * cluster[d];
    n /= clusters;
  }
}

std::optional<uint64_t> Launch::take_cluster() {
  for (uint64_t number = next_cluster; number < cluster_count();) {
    if (!next_cluster.compare_exchange_weak(number, number + 1)) continue;
    trigger(cluster_size());
    return number;
  }
  return {};
}

void Launch::trigger(uint64_t blocks) {
  if (blocks > 0 && triggers.fetch_add(blocks) + blocks == cta_count() && triggered) triggered();
}

void Launch::report(Fault fault) {
  std::lock_guard lock(mutex);
  if (reports.size() >= most_reports) return;
  for (const Fault &known : reports)
    if (known.ptx_line == fault.ptx_line && known.message == fault.message) return;
  reports.push_back(std::move(fault));
}

std::optional<Fault> run(Launch &launch) {
  auto begin = std::chrono::steady_clock::now();
  std::optional<Fault> first;
  auto work = [&] {
    try {
      Worker(launch).run();
    } catch (Fault &caught) {
      std::lock_guard lock(launch.mutex);
      if (!first) first = std::move(caught);
      launch.stop = true;
    }
  };
  uint32_t threads = launch.options.threads ? launch.options.threads : core_count();
  threads = static_cast<uint32_t>(std::min<uint64_t>(threads, launch.cluster_count()));
  std::vector<std::thread> others;
  for (uint32_t t = 1; t < threads; t++) {
    others.emplace_back([&] {
      helper_threads++;
      work();
      helper_threads--;
    });
  }
  work();
  for (std::thread &thread : others) thread.join();
  launch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return first;
}

}  // namespace fa::emu

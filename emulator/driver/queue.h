// The emulated GPU's front end: operations that wait for one another, run in the background or by whoever waits for
// one. Streams, events and graphs are nothing but the order between operations.
//
// One operation runs at a time, so that a program's results do not depend on chance, until it cannot go on by itself or
// runs for long: then it lets others run at the same time. Under a seed it may do so from the start.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "check/stream_races.h"
#include "exec/launch.h"

namespace fa::emu::driver {

struct Context;

struct Operation {
  using Clock = std::chrono::steady_clock;
  std::vector<std::shared_ptr<Operation>> after;  // emptied when it has run
  std::function<void(Operation &)> body;          // empty: a mark only
  std::function<bool()> ready;                    // where it waits for memory: whether it may run
  Context *context = nullptr;                     // once a fault has ended it, bodies no longer run
  std::shared_ptr<Operation> trigger;             // of a kernel, a mark: done when dependents may start
  std::shared_ptr<Operation> prerequisite;        // of a dependent: the operation that griddepcontrol.wait waits for
  bool followed = false;                          // some operation waits for it
  uint64_t lot = 0;                               // under a seed: drawn when the program handed it over
  std::atomic<bool> done{false};
  Clock::time_point ended;

  // Where conflicts are looked for, under the queue's mutex:
  check::StreamClock known;             // the operations before it
  uint32_t timeline = 0, number = 0;    // its place, from its begin on; 0: it does nothing
  uint64_t handed_over = 0, began = 0;  // by one count
  std::string stream;                   // as findings name it

  // While it runs, under the queue's mutex:
  bool shares = false;              // others may start meanwhile
  Launch *launch = nullptr;         // of a kernel
  uint64_t blocked_as_of = 0;       // the progress as of which nothing of it can go on
  Clock::time_point blocked_since;  // when it was first seen held
};
/// An operation that may be waited for; null: nothing.
using Done = std::shared_ptr<Operation>;

class Queue {
 public:
  /// Operations run in the order of their coming, or, where a seed varies it, in any that their dependencies allow.
  /// compares: to find those that touch the same memory with nothing to order them.
  Queue(uint64_t seed, bool compares);

  Done push(Done operation);
  Done push(Context *context, std::vector<Done> after, std::function<void(Operation &)> body);
  /// Returns when the operation has run. The caller lends its thread, so the process must hold no lock.
  void wait(const Done &operation);
  /// Waits for all operations of a context; null: of all contexts.
  void wait_all(const Context *context);
  /// The program has polled an operation: it waits for one, though not in the queue.
  void asked();
  /// The host knows that these operations are done, or that one has come up to its begin.
  void seen(const std::vector<Done> &operations);
  void tell_host(const Operation &operation);
  /// At the end of an operation's body: its conflicts with others. waits: it has waited for its prerequisite.
  std::vector<Finding> compare(const Operation &operation, bool waits, check::StreamOperation self,
                               check::Footprint footprint, const Launch *launch);
  /// Whether the calling thread runs an operation: host functions may not call the API.
  static bool inside();

  /// Connects a kernel's launch with the other running operations, from here to end_launch.
  void begin_launch(Operation &operation, Launch &launch, Room &room);
  void end_launch(Operation &operation);

 private:
  class Waiting;
  using Wanted = std::set<const Operation *>;

  bool may_start(const Operation &operation) const;
  bool step(std::unique_lock<std::mutex> &lock, const Wanted *wanted);
  void run(std::unique_lock<std::mutex> &lock, const Done &operation);
  void work();
  void start_workers();
  void sleep(std::unique_lock<std::mutex> &lock);
  void share(Operation &operation);
  void finish(Operation &operation);
  Verdict judge(Operation &operation, uint64_t as_of);
  bool release_held();
  bool is_awaited() const;
  bool is_alone() const;
  void begin_order(Operation &operation);
  void trigger(Operation &operation);
  void end_wait();
  static Wanted needed_for(const std::vector<Done> &operations);
  /// A process that forks takes the queue along, but not its threads.
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  static void at_exit();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Done> waiting_;
  std::vector<Done> running_;
  std::mt19937_64 random_;
  bool varied_ = false, ending_ = false;
  const bool compares_;                    // operations, and keeps their order
  size_t workers_ = 0, idle_workers_ = 0;  // threads of our own
  size_t waiters_ = 0;                     // threads of the program
  std::atomic<uint64_t> progress_{1};      // of everything that runs
  uint64_t seen_progress_ = 0;
  Operation::Clock::time_point progressed_, asked_;
  uint64_t alone_as_of_ = 0;          // progress since which no thread of the program can do anything
  check::StreamClock host_;           // of the operations that the program's threads know to be done
  check::StreamClock begun_, ended_;  // the newest of each timeline
  uint64_t moments_ = 0;              // of handing over and beginning
  check::StreamRaces races_;
};

/// The process's queue.
Queue &queue();

}  // namespace fa::emu::driver

// The emulated GPU's front end: operations that wait for one another, run one at a time, in the background or by
// whoever waits for one. Streams, events and graphs are nothing but the order between operations.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace fa::emu::driver {

struct Context;

struct Operation {
  std::vector<std::shared_ptr<Operation>> after;  // emptied when it has run
  std::function<void()> body;                     // empty: a mark only
  Context *context = nullptr;                     // once a fault has ended it, bodies no longer run
  std::atomic<bool> done{false};
  std::chrono::steady_clock::time_point ended;
};
/// What may be waited for; null: nothing.
using Done = std::shared_ptr<Operation>;

class Queue {
 public:
  /// Operations run in the order of their coming, or, where a seed varies it, in any that their dependencies allow.
  explicit Queue(uint64_t seed);

  Done push(Context *context, std::vector<Done> after, std::function<void()> body);
  /// Returns when the operation has run. The caller lends its thread, so the process must hold no lock.
  void wait(const Done &operation);
  /// Waits for all operations of a context; null: of all contexts.
  void wait_all(const Context *context);
  /// Whether the calling thread runs an operation: host functions may not call the API.
  static bool inside();

 private:
  bool step(std::unique_lock<std::mutex> &lock);
  void work();
  void start_worker();
  /// A process that forks takes the queue along, but not its thread.
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  static void at_exit();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Done> waiting_;
  std::mt19937_64 random_;
  bool varied_ = false, busy_ = false, worker_ = false, ending_ = false;
  const Context *running_ = nullptr;
};

/// The process's queue.
Queue &queue();

}  // namespace fa::emu::driver

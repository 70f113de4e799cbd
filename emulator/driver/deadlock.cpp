// Kernels that cannot go on: kernels that may start next to them, whose delays end, and when it is a deadlock. Only
// work on the emulated GPU is seen; the program's own threads may still write a flag, and have time for it.
#include <dirent.h>

#include <algorithm>

#include "driver/queue.h"
#include "driver/state.h"
#include "exec/helpers.h"

namespace fa::emu::driver {
namespace {

using namespace std::chrono_literals;
constexpr auto patience = 10s;             // with threads of the program that could still do something
constexpr auto until_dependents = 500ms;   // for the call that enqueues a dependent of a kernel that is held
constexpr auto between_questions = 100ms;  // of a program that asks over and over whether something is done

size_t thread_count() {
  size_t count = 0;
  DIR *folder = opendir("/proc/self/task");
  if (!folder) return SIZE_MAX;
  while (const dirent *entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

}  // namespace

void Queue::begin_launch(Operation &operation, Launch &launch, Room &room) {
  std::lock_guard lock(mutex_);
  operation.launch = &launch;
  launch.room = &room;
  launch.progress = &progress_;
  launch.late = !varied_ || (operation.lot & 2);
  launch.blocked = [this, &operation](uint64_t as_of) { return judge(operation, as_of); };
  launch.company = [this, &operation] {
    std::lock_guard held(mutex_);
    share(operation);
  };
  if (operation.prerequisite) launch.prerequisites = [done = operation.prerequisite] { return done->done.load(); };
  launch.triggered = [this, &operation] {
    std::lock_guard held(mutex_);
    trigger(operation);
  };
}

void Queue::end_launch(Operation &operation) {
  std::lock_guard lock(mutex_);
  operation.launch = nullptr;
}

/// Whether some thread of the program waits for the running operations.
bool Queue::is_awaited() const {
  return waiters_ > 0 || Operation::Clock::now() - asked_ < between_questions;
}

/// Whether every thread of the process is one of ours, or waits in here.
bool Queue::is_alone() const {
  size_t own = workers_ + waiters_ + helper_threads;
  return thread_count() <= own;
}

/// Lets the newest kernel go on that is held behind griddepcontrol.launch_dependents, so that those before it are as
/// late as they may be; whether one is.
bool Queue::release_held() {
  auto now = Operation::Clock::now();
  for (auto at = running_.rbegin(); at != running_.rend(); ++at) {
    const Done &one = *at;
    if (!one->launch || !one->launch->late || !one->launch->held) continue;
    if (one->blocked_since == Operation::Clock::time_point()) one->blocked_since = now;
    bool followed = one->followed || (one->trigger && one->trigger->followed);
    bool awaited = waiters_ > 0 || asked_ > one->blocked_since;
    if (!followed && !awaited && now - one->blocked_since < until_dependents) return true;
    one->launch->late = false;
    progress_++;
    return true;
  }
  return false;
}

/// Called by a kernel's thread when nothing of the kernel can go on, as of that progress of everything.
Verdict Queue::judge(Operation &operation, uint64_t as_of) {
  std::lock_guard lock(mutex_);
  operation.blocked_as_of = as_of;
  share(operation);
  if (operation.context->sticky != CUDA_SUCCESS) return Verdict::end;
  auto now = Operation::Clock::now();
  uint64_t progress = progress_;
  if (seen_progress_ != progress) {
    seen_progress_ = progress;
    progressed_ = now;
  }
  for (const Done &one : running_)
    if (!one->launch || one->blocked_as_of != progress) return Verdict::again;
  if (std::any_of(waiting_.begin(), waiting_.end(), [&](const Done &one) { return may_start(*one); })) {
    start_workers();
    return Verdict::again;
  }
  if (release_held()) return Verdict::again;
  if (!is_awaited() || operation.launch->resident == 0) return Verdict::again;
  if (ending_ || now - progressed_ > patience) return Verdict::deadlock;
  if (!is_alone()) return Verdict::again;
  // The last thing that another thread did may not have been seen yet: all look once more.
  if (alone_as_of_ == progress) return Verdict::deadlock;
  alone_as_of_ = ++progress_;
  return Verdict::again;
}

}  // namespace fa::emu::driver

// Running operations, one at a time or side by side, and surviving fork and exit.
#include "driver/queue.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "driver/findings.h"
#include "driver/state.h"
#include "driver/totals.h"

namespace fa::emu::driver {
namespace {

constexpr size_t max_running = 128;                          // kernels at once, as of compute capability 7.5 on
constexpr auto look_again = std::chrono::microseconds(200);  // at memory that an operation waits for

thread_local bool runs_operation = false;

/// Adds an operation, and all before it, to the clock of one that comes behind it.
void learn(check::StreamClock &known, const Operation &operation) {
  check::join(known, operation.known);
  if (operation.number == 0) return;
  if (known.size() <= operation.timeline) known.resize(operation.timeline + 1);
  known[operation.timeline] = std::max(known[operation.timeline], operation.number);
}

bool is_ready(const Operation &operation) {
  auto is_done = [](const Done &one) { return one->done.load(); };
  return std::all_of(operation.after.begin(), operation.after.end(), is_done) &&
         (!operation.ready || operation.ready() || operation.context->sticky != CUDA_SUCCESS);
}

}  // namespace

/// Counts a thread of the program that waits in here.
class Queue::Waiting {
 public:
  explicit Waiting(Queue &queue) : queue_(queue) { queue_.waiters_++; }
  ~Waiting() { queue_.waiters_--; }
  Waiting(const Waiting &) = delete;
  Waiting &operator=(const Waiting &) = delete;

 private:
  Queue &queue_;
};

Queue &queue() {
  // Never destroyed: its threads may still be there when the program ends.
  static Queue *const instance = new Queue(settings().run.seed, settings().run.check);
  return *instance;
}

Queue::Queue(uint64_t seed, bool compares) : random_(seed), varied_(seed != 0), compares_(compares) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  std::atexit(at_exit);
}

bool Queue::inside() {
  return runs_operation;
}

Done Queue::push(Done operation) {
  std::lock_guard lock(mutex_);
  if (compares_) operation->known = host_, operation->handed_over = ++moments_;
  std::erase_if(operation->after, [&](const Done &one) {
    if (one && !one->done) return false;
    if (one && compares_) learn(operation->known, *one);
    return true;
  });
  for (const Done &one : operation->after) one->followed |= operation->body != nullptr;
  if (varied_) operation->lot = random_();
  waiting_.push_back(operation);
  start_workers();
  return operation;
}

Done Queue::push(Context *context, std::vector<Done> after, std::function<void(Operation &)> body) {
  auto operation = std::make_shared<Operation>();
  operation->after = std::move(after);
  operation->body = std::move(body);
  operation->context = context;
  return push(std::move(operation));
}

/// Wakes threads for operations that may start, and makes one more where all are busy.
void Queue::start_workers() {
  changed_.notify_all();
  if (ending_ || idle_workers_ > 0 || workers_ >= max_running) return;
  workers_++;
  std::thread([this] { work(); }).detach();
}

/// Whether the running operations let a worker start another one.
bool Queue::may_start(const Operation &operation) const {
  return running_.size() < max_running &&
         std::all_of(
             running_.begin(), running_.end(), [](const Done &one) { return one->shares; }) &&
         is_ready(operation);
}

/// Runs one operation, of those that are wanted or else of all that may start; false otherwise.
bool Queue::step(std::unique_lock<std::mutex> &lock, const Wanted *wanted) {
  std::vector<size_t> choice;
  for (size_t i = 0; i < waiting_.size() && (varied_ || choice.empty()); i++)
    if (wanted ? wanted->count(waiting_[i].get()) && is_ready(*waiting_[i]) : may_start(*waiting_[i]))
      choice.push_back(i);
  if (choice.empty()) return false;
  size_t at = *std::max_element(choice.begin(), choice.end(), [&](size_t a, size_t b) {
    return waiting_[a]->lot < waiting_[b]->lot;  // of equal ones the first
  });
  Done operation = waiting_[at];
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at));
  run(lock, operation);
  return true;
}

void Queue::run(std::unique_lock<std::mutex> &lock, const Done &operation) {
  running_.push_back(operation);
  operation->shares = operation->lot & 1;
  if (compares_) begin_order(*operation);
  if (operation->shares) start_workers();
  lock.unlock();
  runs_operation = true;
  if (operation->body && operation->context->sticky == CUDA_SUCCESS) operation->body(*operation);
  runs_operation = false;
  lock.lock();
  operation->body = nullptr;
  operation->ready = nullptr;
  operation->after.clear();
  if (operation->number) ended_[operation->timeline] = operation->number;
  trigger(*operation);
  operation->prerequisite = nullptr;
  std::erase(running_, operation);
  finish(*operation);
}

/// A kernel lets its dependents start: they are behind the prerequisite that it has waited for itself.
void Queue::trigger(Operation &operation) {
  if (!operation.trigger || operation.trigger->done) return;
  if (compares_ && operation.prerequisite && operation.prerequisite->done)
    learn(operation.trigger->known, *operation.prerequisite);
  finish(*operation.trigger);
}

void Queue::finish(Operation &operation) {
  if (operation.done) return;
  operation.ended = Operation::Clock::now();
  operation.done = true;
  progress_++;
  start_workers();
}

void Queue::share(Operation &operation) {
  if (operation.shares) return;
  operation.shares = true;
  start_workers();
}

/// Sleeps until something has changed. A change of memory wakes nobody, so that operations that wait for one poll.
void Queue::sleep(std::unique_lock<std::mutex> &lock) {
  bool looks = std::any_of(waiting_.begin(), waiting_.end(), [](const Done &one) { return one->ready != nullptr; });
  if (looks)
    changed_.wait_for(lock, look_again);
  else
    changed_.wait(lock);
}

void Queue::work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (step(lock, nullptr)) continue;
    idle_workers_++;
    sleep(lock);
    idle_workers_--;
  }
  workers_--;
}

/// Operations and all that must run before they end.
Queue::Wanted Queue::needed_for(const std::vector<Done> &operations) {
  Wanted result;
  std::vector<const Operation *> open;
  for (const Done &one : operations) open.push_back(one.get());
  while (!open.empty()) {
    const Operation *one = open.back();
    open.pop_back();
    if (one->done || !result.insert(one).second) continue;
    for (const Done &before : one->after) open.push_back(before.get());
    if (one->prerequisite) open.push_back(one->prerequisite.get());
  }
  return result;
}

void Queue::wait(const Done &operation) {
  if (!operation || (operation->done && !compares_)) return;
  std::unique_lock lock(mutex_);
  Waiting waiting(*this);
  Wanted wanted = needed_for({operation});
  while (!operation->done)
    if (!step(lock, &wanted)) sleep(lock);
  if (!compares_) return;
  learn(host_, *operation);
  end_wait();
}

void Queue::wait_all(const Context *context) {
  std::unique_lock lock(mutex_);
  Waiting waiting(*this);
  std::vector<Done> all;
  auto add = [&](const Done &one) {
    if (!context || one->context == context) all.push_back(one);
  };
  std::for_each(running_.begin(), running_.end(), add);
  std::for_each(waiting_.begin(), waiting_.end(), add);
  Wanted wanted = needed_for(all);
  for (const Done &one : all)
    while (!one->done)
      if (!step(lock, &wanted)) sleep(lock);
  if (!compares_) return;
  check::join(host_, ended_);  // those of other contexts as well
  end_wait();
}

/// Where the host knows all that was ever begun, nothing that is to come conflicts with it.
void Queue::end_wait() {
  if (!waiting_.empty() || !running_.empty()) return;
  for (uint32_t timeline = 0; timeline < begun_.size(); timeline++)
    if (!check::covers(host_, timeline, begun_[timeline])) return;
  races_.forget();
}

/// An operation that is about to begin takes its place behind those that it waits for, in a timeline whose newest one
/// is among them.
void Queue::begin_order(Operation &operation) {
  for (const Done &one : operation.after) learn(operation.known, *one);
  if (operation.ready) check::join(operation.known, begun_);  // whoever wrote the value that it waited for
  if (!operation.body) return;
  if (operation.trigger) operation.trigger->known = operation.known;
  operation.began = ++moments_;
  uint32_t timeline = 0;
  while (timeline < begun_.size() && !check::covers(operation.known, timeline, begun_[timeline])) timeline++;
  if (timeline == begun_.size()) begun_.push_back(0), ended_.push_back(0);
  operation.timeline = timeline;
  operation.number = ++begun_[timeline];
}

void Queue::seen(const std::vector<Done> &operations) {
  if (!compares_) return;
  std::lock_guard lock(mutex_);
  for (const Done &one : operations)
    if (one) learn(host_, *one);
  end_wait();
}

void Queue::tell_host(const Operation &operation) {
  if (!compares_) return;
  std::lock_guard lock(mutex_);
  check::join(host_, operation.known);
}

std::vector<Finding> Queue::compare(const Operation &operation, bool waits, check::StreamOperation self,
                                    check::Footprint footprint, const Launch *launch) {
  {
    std::lock_guard lock(mutex_);
    self.known = operation.known;
    if (waits && operation.prerequisite) self.waited = self.known, learn(self.waited, *operation.prerequisite);
    self.timeline = operation.timeline;
    self.number = operation.number;
    self.handed_over = operation.handed_over;
    self.began = operation.began;
  }
  return races_.ends(std::move(self), std::move(footprint), launch);
}

void Queue::asked() {
  std::lock_guard lock(mutex_);
  asked_ = Operation::Clock::now();
}

void Queue::before_fork() {
  Queue &self = queue();
  std::unique_lock lock(self.mutex_);
  while (!self.running_.empty() && !inside()) self.changed_.wait(lock);
  lock.release();
}

void Queue::after_fork_in_parent() {
  queue().mutex_.unlock();
}

void Queue::after_fork_in_child() {
  Queue &self = queue();
  new (&self.changed_) std::condition_variable;
  self.workers_ = self.idle_workers_ = self.waiters_ = 0;
  self.mutex_.unlock();
  forget_findings();
  forget_totals();
}

void Queue::at_exit() {
  Queue &self = queue();
  std::unique_lock lock(self.mutex_);
  Waiting waiting(self);
  self.ending_ = true;
  self.waiting_.clear();
  self.changed_.notify_all();
  while (!self.running_.empty() && !inside()) self.changed_.wait(lock);
}

}  // namespace fa::emu::driver

// Running operations, and surviving fork and exit.
#include "driver/queue.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "driver/state.h"

namespace fa::emu::driver {
namespace {

thread_local bool runs_operation = false;

bool may_run(const Operation &operation) {
  return std::all_of(operation.after.begin(), operation.after.end(), [](const Done &one) { return one->done.load(); });
}

}  // namespace

Queue &queue() {
  // Never destroyed: its thread may still be there when the program ends.
  static Queue *const instance = new Queue(settings().run.seed);
  return *instance;
}

Queue::Queue(uint64_t seed) : random_(seed), varied_(seed != 0) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  std::atexit(at_exit);
}

bool Queue::inside() {
  return runs_operation;
}

Done Queue::push(Context *context, std::vector<Done> after, std::function<void()> body) {
  auto operation = std::make_shared<Operation>();
  std::erase_if(after, [](const Done &one) { return !one || one->done; });
  operation->after = std::move(after);
  operation->body = std::move(body);
  operation->context = context;
  std::lock_guard lock(mutex_);
  waiting_.push_back(operation);
  start_worker();
  changed_.notify_all();
  return operation;
}

void Queue::start_worker() {
  if (worker_ || ending_) return;
  worker_ = true;
  std::thread([this] { work(); }).detach();
}

bool Queue::step(std::unique_lock<std::mutex> &lock) {
  if (busy_ || waiting_.empty()) return false;
  size_t at = 0;  // the first one may always run: what it waits for came before it
  if (varied_) {
    std::vector<size_t> choice;
    for (size_t i = 0; i < waiting_.size(); i++)
      if (may_run(*waiting_[i])) choice.push_back(i);
    at = choice[random_() % choice.size()];
  }
  Done operation = waiting_[at];
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at));
  busy_ = true;
  running_ = operation->context;
  lock.unlock();
  runs_operation = true;
  if (operation->body && operation->context->sticky == CUDA_SUCCESS) operation->body();
  runs_operation = false;
  lock.lock();
  operation->body = nullptr;
  operation->after.clear();
  operation->ended = std::chrono::steady_clock::now();
  operation->done = true;
  busy_ = false;
  running_ = nullptr;
  changed_.notify_all();
  return true;
}

void Queue::work() {
  std::unique_lock lock(mutex_);
  while (!ending_)
    if (!step(lock)) changed_.wait(lock);
}

void Queue::wait(const Done &operation) {
  if (!operation || operation->done) return;
  std::unique_lock lock(mutex_);
  while (!operation->done)
    if (!step(lock)) changed_.wait(lock);
}

void Queue::wait_all(const Context *context) {
  std::unique_lock lock(mutex_);
  auto mine = [&](const Context *other) { return other && (!context || other == context); };
  auto pending = [&] {
    return mine(running_) ||
           std::any_of(waiting_.begin(), waiting_.end(), [&](const Done &one) { return mine(one->context); });
  };
  while (pending())
    if (!step(lock)) changed_.wait(lock);
}

void Queue::before_fork() {
  Queue &self = queue();
  std::unique_lock lock(self.mutex_);
  while (self.busy_ && !inside()) self.changed_.wait(lock);
  lock.release();
}

void Queue::after_fork_in_parent() {
  queue().mutex_.unlock();
}

void Queue::after_fork_in_child() {
  Queue &self = queue();
  new (&self.changed_) std::condition_variable;
  self.worker_ = false;
  self.mutex_.unlock();
}

void Queue::at_exit() {
  Queue &self = queue();
  std::unique_lock lock(self.mutex_);
  self.ending_ = true;
  self.waiting_.clear();
  self.changed_.notify_all();
  while (self.busy_ && !inside()) self.changed_.wait(lock);
}

}  // namespace fa::emu::driver

// stack.*: no call needs more than a small stack, such as musl's threads and fibers have, however wide heads
// are.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "engine/target.h"
#include "reference/run.h"
#include "reference/sanitizer.h"

namespace test {
using namespace reference;
namespace {

/// 32 KiB, and room for what sanitizers add to frames and threads.
size_t stack_bytes() {
  const size_t bytes = address_sanitizer || thread_sanitizer ? 2 << 20 : 32 << 10;
  return std::max(bytes, static_cast<size_t>(sysconf(_SC_THREAD_STACK_MIN)));
}

/// Memory for a stack, next to addresses without any: none of the library's arrays reaches beyond these.
class Stack {
 public:
  Stack() : memory_(static_cast<char *>(mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    usable_ = memory_ != MAP_FAILED && mprotect(end() - stack_bytes(), stack_bytes(), PROT_READ | PROT_WRITE) == 0;
  }
  Stack(const Stack &) = delete;
  Stack &operator=(const Stack &) = delete;
  ~Stack() { munmap(memory_, all); }

  explicit operator bool() const { return usable_; }
  char *begin() const { return end() - stack_bytes(); }

 private:
  static constexpr size_t all = 4 << 20;
  char *end() const { return memory_ + all; }

  char *memory_;
  bool usable_;
};

/// Runs f() on a thread with such a stack; false if there is none.
bool run_on_small_stack(std::function<void()> f) {
  const Stack stack;
  pthread_attr_t attributes;
  pthread_t thread;
  const auto run = [](void *self) -> void * { return (*static_cast<std::function<void()> *>(self))(), nullptr; };
  pthread_attr_init(&attributes);
  const bool runs = stack && pthread_attr_setstack(&attributes, stack.begin(), stack_bytes()) == 0 &&
                    pthread_create(&thread, &attributes, run, &f) == 0;
  pthread_attr_destroy(&attributes);
  return runs && pthread_join(thread, nullptr) == 0;
}

class SmallStack : public EngineTest {
 protected:
  std::vector<Case> cases() const {
    std::vector<Case> list;
    const auto add = [&](auto change) {
      Case c;
      c.b = 1, c.sq = 70, c.sk = 300, c.hq = 2, c.hkv = 1, c.d = FA_MAX_HEAD_DIM, c.threads = 1;
      change(&c);
      list.push_back(typed(c, list.size()));
    };
    add([](Case *) {});
    add([](Case *c) { c->sq = 1; });
    add([](Case *c) { c->sq = 7, c->softcap = 7, c->sinks = "h"; });
    add([](Case *c) { c->mask = FA_MASK_CAUSAL, c->bias = "f32:bhqk", c->padded = true; });
    add([](Case *c) { c->special = true; });
    add([](Case *c) { c->sq = 3, c->splits = 3, c->alibi = "h"; });
    return shard_of(list);
  }

  template <class Built, class Call>
  void expect_success(const Case &c, const Call &call) {
    Built instance(c);
    const Op op(instance.desc, kernel, c.fenv);
    ASSERT_TRUE(op) << repeat_line(c, kernel);
    fa_status status = FA_ERROR_DRIVER;
    ASSERT_TRUE(run_on_small_stack([&] { status = call(op, instance); }));
    ASSERT_EQ(status, FA_OK) << repeat_line(c, kernel);
  }
};

TEST_P(SmallStack, Suffices) {
  for (const Case &c : cases())
    expect_success<Instance>(c, [](const Op &op, const Instance &instance) { return forward(op, instance); });
}

TEST_P(SmallStack, SufficesForGradients) {
  for (Case c : cases()) {
    c.backward = true, c.splits = 0;
    expect_success<BackwardInstance>(c,
                                     [](const Op &op, BackwardInstance &instance) { return backward(op, instance); });
  }
}

TEST_TARGETS(SmallStack, all_types);

}  // namespace
}  // namespace test

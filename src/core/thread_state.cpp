#include "core/thread_state.h"

#include <cerrno>

namespace fa {
namespace {

// A control register is read first and written only if its value differs: writes are slow, and rarely needed.
#if defined(__x86_64__)

constexpr uint32_t default_control = 0x1f80, flags = 0x3f;

FloatEnvironment environment() {
  uint32_t mxcsr;
  asm volatile("stmxcsr %0" : "=m"(mxcsr) : : "memory");
  return mxcsr;
}

void set(uint32_t mxcsr) {
  asm volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
}

void set_default(const FloatEnvironment &now) {
  if ((now & ~flags) != default_control) set(default_control);
}

void restore(const FloatEnvironment &before) {
  if (environment() != before) set(before);
}

#elif defined(__aarch64__)

FloatEnvironment environment() {
  FloatEnvironment now;
  asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(now.control), "=r"(now.flags) : : "memory");
  return now;
}

void set_control(uint64_t control) {
  asm volatile("msr fpcr, %0" : : "r"(control) : "memory");
}

void set_default(const FloatEnvironment &now) {
  if (now.control != 0) set_control(0);
}

void restore(const FloatEnvironment &before) {
  const FloatEnvironment now = environment();
  if (now.control != before.control) set_control(before.control);
  if (now.flags != before.flags) asm volatile("msr fpsr, %0" : : "r"(before.flags) : "memory");
}

#else

FloatEnvironment environment() {
  FloatEnvironment now;
  std::fegetenv(&now);
  return now;
}

void set_default(const FloatEnvironment &) {
  std::fesetenv(FE_DFL_ENV);
}

void restore(const FloatEnvironment &before) {
  std::fesetenv(&before);
}

#endif

/// The default environment while this lives.
class InDefaultState {
 public:
  explicit InDefaultState(CallerState &state) : state_(state) {
    state.error = errno;
    state.floats = environment();
    set_default(state.floats);
  }
  ~InDefaultState() {
    restore(state_.floats);
    errno = state_.error;
  }
  InDefaultState(const InDefaultState &) = delete;
  InDefaultState &operator=(const InDefaultState &) = delete;

 private:
  CallerState &state_;
};

/// The caller's environment while this lives.
class InCallersState {
 public:
  explicit InCallersState(CallerState &state) : state_(state) {
    restore(state.floats);
    errno = state.error;
  }
  ~InCallersState() {
    state_.error = errno;
    state_.floats = environment();
    set_default(state_.floats);
  }
  InCallersState(const InCallersState &) = delete;
  InCallersState &operator=(const InCallersState &) = delete;

 private:
  CallerState &state_;
};

}  // namespace

void call_in_default_state(void (*body)(void *ctx, CallerState &state), void *ctx) {
  CallerState state;
  const InDefaultState in(state);
  body(ctx, state);
}

void call_in_caller_state(CallerState &state, void (*body)(void *ctx), void *ctx) {
  const InCallersState in(state);
  body(ctx);
}

}  // namespace fa

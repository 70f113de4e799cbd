#include "reference/caller.h"

#include <cerrno>
#include <cfenv>
#include <cstdio>
#include <utility>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace reference {
namespace {

constexpr int an_errno = 4242;  // that no function sets

#if defined(__x86_64__)

/// The upper halves are the x87 unit's.
constexpr uint64_t all_masked = 0x1f80 | uint64_t{0x037f} << 32;
constexpr uint64_t raised = 0x08;  // overflow

Caller::State state() {
  uint16_t control, status;
  asm volatile("fnstcw %0" : "=m"(control));
  asm volatile("fnstsw %0" : "=m"(status));
  const uint32_t mxcsr = _mm_getcsr();
  return {(mxcsr & ~0x3fu) | uint64_t{control} << 32, (mxcsr & 0x3f) | uint64_t{status & 0x3fu} << 32, errno};
}

void set_state(const Caller::State &state) {
  const uint16_t control = uint16_t(state.control >> 32);
  asm volatile("fnclex");
  asm volatile("fldcw %0" : : "m"(control));
  _mm_setcsr(uint32_t(state.control) | uint32_t(state.flags));
  errno = state.error;
}

/// Both units round alike.
constexpr uint64_t rounding(uint64_t mode) {
  return mode << 13 | mode << 42;
}

const std::vector<std::pair<std::string, uint64_t>> controls = {
    {"up", all_masked | rounding(2)},      {"down", all_masked | rounding(1)},
    {"to_zero", all_masked | rounding(3)}, {"ftz", all_masked | 0x8000},
    {"daz", all_masked | 0x0040},          {"traps", all_masked & ~(uint64_t{0x1f80} | uint64_t{0x3f} << 32)},
};

#elif defined(__aarch64__)

constexpr uint64_t all_masked = 0;
constexpr uint64_t raised = 0x04;  // overflow

Caller::State state() {
  uint64_t control, status;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("mrs %0, fpsr" : "=r"(status));
  return {control, status, errno};
}

void set_state(const Caller::State &state) {
  asm volatile("msr fpcr, %0" : : "r"(state.control));
  asm volatile("msr fpsr, %0" : : "r"(state.flags));
  errno = state.error;
}

const std::vector<std::pair<std::string, uint64_t>> controls = {
    {"up", 1 << 22},      {"down", 2 << 22},       {"to_zero", 3 << 22}, {"ftz", 1 << 24},
    {"one_nan", 1 << 25}, {"other_half", 1 << 26}, {"traps", 0x9f00},
};

#else

constexpr uint64_t all_masked = FE_TONEAREST;
constexpr uint64_t raised = FE_OVERFLOW;

Caller::State state() {
  return {uint64_t(std::fegetround()), uint64_t(std::fetestexcept(FE_ALL_EXCEPT)), errno};
}

void set_state(const Caller::State &state) {
  std::fesetround(int(state.control));
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(int(state.flags));
  errno = state.error;
}

const std::vector<std::pair<std::string, uint64_t>> controls = {
    {"up", FE_UPWARD}, {"down", FE_DOWNWARD}, {"to_zero", FE_TOWARDZERO}};

#endif

uint64_t control_of(const std::string &environment) {
  for (const auto &[name, control] : controls)
    if (name == environment) return control;
  return all_masked;
}

std::string unlike(const Caller::State &given) {
  const Caller::State now = state();
  char text[200] = "";
  const auto printed = [](uint64_t bits) { return static_cast<unsigned long long>(bits); };
  if (now.control != given.control || now.flags != given.flags) {
    std::snprintf(text, sizeof text, "the floating-point environment is %llx with flags %llx, and was %llx with %llx",
                  printed(now.control), printed(now.flags), printed(given.control), printed(given.flags));
  } else if (now.error != given.error) {
    std::snprintf(text, sizeof text, "errno is %d, and was %d", now.error, given.error);
  }
  return text;
}

}  // namespace

/// A CPU may leave bits as they are that it has no use for: traps, on most of ARM's.
std::vector<std::string> float_environments() {
  std::vector<std::string> names;
  for (const auto &[name, control] : controls) {
    const Caller::State before = state();
    set_state({control, 0, before.error});
    const bool taken = state().control == control;
    set_state(before);
    if (taken) names.push_back(name);
  }
  return names;
}

Caller::Caller(const std::string &environment) : before_(state()), given_{control_of(environment), raised, an_errno} {
  set_state(given_);
}

Caller::~Caller() {
  set_state(before_);
}

std::string Caller::changed() const {
  return unlike(given_);
}

std::string other_caller_than(const std::string &environment) {
  return unlike({control_of(environment), raised, an_errno});
}

}  // namespace reference

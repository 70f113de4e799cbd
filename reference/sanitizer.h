// Which sanitizer watches this build: the tests do less work under one, and leave out code that it cannot follow.
#pragma once

#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#if __has_feature(memory_sanitizer)
#define TEST_MSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#endif

namespace reference {

#ifdef TEST_ASAN
constexpr bool address_sanitizer = true;
#else
constexpr bool address_sanitizer = false;
#endif

#ifdef TEST_TSAN
constexpr bool thread_sanitizer = true;
#else
constexpr bool thread_sanitizer = false;
#endif

#ifdef TEST_MSAN
constexpr bool memory_sanitizer = true;
#else
constexpr bool memory_sanitizer = false;
#endif

#ifdef TEST_EMULATED
constexpr bool emulated = true;
#else
constexpr bool emulated = false;
#endif

/// Everything runs many times slower than in a release build: sanitizers, an emulated processor, or modelled
/// instructions, which the environment variable TEST_EMULATED indicates.
inline const bool slow =
    address_sanitizer || thread_sanitizer || memory_sanitizer || emulated || std::getenv("TEST_EMULATED") != nullptr;

}  // namespace reference

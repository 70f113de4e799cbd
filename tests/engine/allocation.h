// Counts the process' allocations, and makes a chosen one fail. Its allocation.cpp replaces the C library's functions,
// or only operator new where a sanitizer has replaced them already.
#pragma once

#include <cstdint>

namespace test {

/// Every allocation function of the C library is replaced, not only operator new.
extern const bool every_allocation_is_seen;

/// From now on counts allocations, of all threads, from 0; the one with number failing (and, when all_after, every
/// later one) fails. -1: none.
void watch_allocations(int64_t failing = -1, bool all_after = false);

/// Stops; returns how many there were.
int64_t stop_watching();

}  // namespace test

// How the CPU computes an operation. NAME_executor.h has the Executor of fa_NAME, and engine.cpp includes all of them.
#pragma once

#include "core/count.h"
#include "core/operations.h"
#include "cpu/tile.h"

namespace fa::cpu {

/// The computation of a type of call: check_contents() refuses wrong contents of arrays, workspace() is the memory that
/// a plan takes, execute() runs it. A build without an operation has no specialisation for it.
template <class Call>
struct Executor;

/// The plan of an operation that takes no memory.
struct NoWorkspace {
  int64_t workers;
  Count total() const { return 0; }
};

/// A call with fewer multiplications ends before another thread has woken.
constexpr double min_parallel_macs = 2e5;

}  // namespace fa::cpu

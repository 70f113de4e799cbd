// What the checks must know of an instruction beyond its accesses, found once a launch from its text.
#pragma once

#include <span>
#include <vector>

#include "exec/program.h"

namespace fa::emu::check {

enum class Class : uint8_t {
  other,
  move,         // copies a register: no use of its value
  copy_commit,  // cp.async.commit_group
  copy_wait,    // cp.async.wait_group, wait_all
  wgmma,        // wgmma.mma_async
  wgmma_fence,
  wgmma_commit,
  wgmma_wait,
  mbarrier,      // mbarrier, cp.async.mbarrier: what they order is told apart from their accesses
  tensor_load,   // tcgen05.ld
  tensor_store,  // tcgen05.st
  tensor_wait_load,
  tensor_wait_store,
  tensor_fence_before,
  tensor_fence_after,
  strong_access,  // ld, st with .volatile, .relaxed, .acquire, .release: may communicate without being a race
};

struct Classified {
  Class what = Class::other;
  int32_t groups = 0;   // of waits: how many may stay in flight
  bool vector = false;  // ld, st of a vector in shared memory
};

/// By program counter.
std::vector<Classified> classify(const Program &program);

/// The elements of the vector that the instruction there loads or stores.
std::span<const ptx::Operand> vector_of(const Program &program, uint32_t pc);

}  // namespace fa::emu::check

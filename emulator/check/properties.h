// Properties of an instruction for the checks, besides its accesses, found once a launch from its text.
#pragma once

#include <span>
#include <vector>

#include "exec/program.h"

namespace fa::emu::check {

enum class InstructionKind : uint8_t {
  other,
  move,         // copies a register: no use of its value
  copy_commit,  // cp.async.commit_group
  copy_wait,    // cp.async.wait_group, wait_all
  wgmma,        // wgmma.mma_async
  wgmma_fence,
  wgmma_commit,
  wgmma_wait,
  mbarrier,      // mbarrier, cp.async.mbarrier: the order that they establish is reported apart from their accesses
  tensor_load,   // tcgen05.ld
  tensor_store,  // tcgen05.st
  tensor_wait_load,
  tensor_wait_store,
  tensor_fence_before,
  tensor_fence_after,
  strong_access,  // ld, st with .volatile, .relaxed, .acquire, .release: may communicate without being a race
  fence,          // fence.acq_rel, fence.sc, membar
  mbarrier_init_fence,
  map_fence,        // fence.proxy.tensormap
  dependency_wait,  // griddepcontrol.wait
};

/// Whether it makes an mbarrier (init), or ends one (inval).
enum class Making : uint8_t { no, init, inval };

/// For whom a strong access or a fence orders memory; none: a weak access. The device's holds for all of the system
/// here.
enum class Scope : uint8_t { none, cta, cluster, gpu };

/// The result of an instruction with sources that nobody has written: see propagation.h.
enum class Propagation : uint8_t {
  use,          // uses them: memory, addresses, branches, and all that is not known better
  lane,         // results of the same lanes have no value
  pack,         // mov of a vector into one register
  unpack,       // mov of one register into a vector
  choice,       // selp
  conjunction,  // and.pred
  disjunction,  // or.pred
  exchange,     // shfl
  product,      // mma
  warp,         // results of all lanes have no value
};

struct InstructionProperties {
  InstructionKind kind = InstructionKind::other;
  int32_t groups = 0;  // of waits: how many may stay in flight
  Making makes = Making::no;
  bool vector = false;  // ld, st of a vector in shared memory
  bool loads = false;   // ld, ldmatrix: brings values into registers that may be uninitialised
  bool matrix = false;  // ldmatrix
  Scope scope = Scope::none;
  bool acquires = false, releases = false;  // by itself; .relaxed and .volatile need a fence for it
  bool constant = false;                    // ld.global.nc: of data that nobody writes while the kernel runs
  bool shared_only = false;                 // fence.proxy of shared memory alone
  Propagation propagation = Propagation::use;
};

/// By program counter.
std::vector<InstructionProperties> classify(const Program &program);

/// The elements of the vector that the instruction there loads or stores; of ld, without one, where it loads to.
std::span<const ptx::Operand> vector_of(const Program &program, uint32_t pc);

}  // namespace fa::emu::check

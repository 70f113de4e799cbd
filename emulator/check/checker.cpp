// From the interpreter's events to the checks.
#include "check/checker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "memory/windows.h"

namespace fa::emu::check {
namespace {

/// Keys of warpgroups' products, apart from addresses; the warpgroup's number below.
constexpr uint64_t products_key = uint64_t{1} << 63;

}  // namespace

Checker::Checker(std::shared_ptr<LaunchChecks> checks)
    : Counting(checks->reporter.launch()),
      checks_(std::move(checks)),
      code_(checks_->reporter.launch().program->code.data()),
      properties_(checks_->classes.data()),
      shared_(checks_->reporter, clocks_),
      global_(checks_->global, clocks_),
      tensor_(checks_->reporter, clocks_),
      mbarriers_(checks_->reporter, clocks_) {}

uint32_t Checker::agent_of(const Warp &warp) const {
  return warp.cta->rank * warps_per_cta_ + warp.index;
}

uint32_t Checker::warpgroup_of(const Warp &warp) const {
  uint32_t in_cta = (warps_per_cta_ + ProductReads::warps - 1) / ProductReads::warps;
  return warp.cta->rank * in_cta + warp.index / ProductReads::warps;
}

uint32_t Checker::pc_of(const Instruction &instruction) const {
  return static_cast<uint32_t>(&instruction - code_);
}

void Checker::cta_begins(Cta &cta) {
  if (cta.rank + 1 != cta.cluster->ctas.size()) return;
  warps_per_cta_ = static_cast<uint32_t>(cta.warps.size());
  uint32_t warps = warps_per_cta_ * static_cast<uint32_t>(cta.cluster->ctas.size());
  clocks_.begin(warps);
  shared_.begin(*cta.cluster);
  global_.begin(*cta.cluster);
  tensor_.begin(*cta.cluster);
  mbarriers_.begin();
  marks_.clear();
  warps_.resize(warps);
  for (WarpChecks &warp : warps_) warp.registers.begin(), warp.copies.begin(), warp.begun = 0;
  products_.assign(warpgroup_of(cta.warps.back()) + 1, {});
}

void Checker::cta_ends(Cta &cta) {
  Counting::cta_ends(cta);
  for (Warp &warp : cta.warps) warps_[agent_of(warp)].registers.end(checks_->reporter, warp);
  shared_.end(cta);
  tensor_.end(cta);
}

void Checker::instruction(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t pc = pc_of(instruction);
  const InstructionProperties &properties = properties_[pc];
  WarpChecks &own = warps_[agent_of(warp)];
  if (!own.registers.is_settled(warp, pc, mask))
    own.registers.instruction(checks_->reporter, warp, pc, properties, mask);
  for (uint32_t load : own.registers.early_loads()) tensor_.loaded(warp, agent_of(warp), load);
  switch (properties.kind) {
    case InstructionKind::copy_commit:
      return own.copies.commit();
    case InstructionKind::copy_wait:
      return complete(warp, own.copies, properties.groups);
    case InstructionKind::wgmma:
      return products_of(warp).issue(warp.index % ProductReads::warps, clocks_.progress_of(agent_of(warp)));
    case InstructionKind::tensor_wait_load:
    case InstructionKind::tensor_wait_store:
      return tensor_.wait(warp, agent_of(warp), properties.kind == InstructionKind::tensor_wait_store);
    case InstructionKind::fence:
      return global_.fence({&warp, agent_of(warp), 0, pc, false, &instruction, nullptr, &properties}, mask);
    case InstructionKind::dependency_wait:
      return global_.waits_for_prerequisites(agent_of(warp));
    case InstructionKind::mbarrier_init_fence:
      return mbarriers_.fence(agent_of(warp));
    case InstructionKind::tensor_fence_before:
      return clocks_.tensor_fence_before(agent_of(warp));
    case InstructionKind::tensor_fence_after:
      return clocks_.tensor_fence_after(agent_of(warp));
    default:
      return;
  }
}

void Checker::skipped(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t pc = pc_of(instruction);
  warps_[agent_of(warp)].registers.skip(checks_->reporter, warp, pc, properties_[pc], mask);
}

void Checker::complete(const Warp &warp, InFlight &operations, int32_t groups) {
  Accessor who{&warp, agent_of(warp)};
  operations.wait(groups, [&](const Operation &operation) {
    who.pc = operation.pc;
    Access access;
    access.space = ptx::Space::shared;
    access.kind = operation.ends;
    access.bytes = operation.bytes;
    access.mask = operation.mask;
    access.address = operation.address.data();
    shared_.access_rows(who, access, [](uint32_t) {});
  });
}

void Checker::access(Warp &warp, const Instruction &instruction, const Access &access) {
  uint32_t pc = pc_of(instruction);
  if (access.kind == AccessKind::read && access.async_proxy)
    return global_.use_map({&warp, agent_of(warp), 0, pc, false, &instruction, &access, &properties_[pc]});
  Counting::access(warp, instruction, access);
  const bool several = (access.mask & (access.mask - 1)) != 0 && access.space != ptx::Space::local;
  if (access.digest && several) check_lanes(warp, instruction, access);
  if (access.space == ptx::Space::shared) return shared_access(warp, instruction, access);
  if (access.space != ptx::Space::global) return;
  Accessor who{&warp,   agent_of(warp),  0, pc, properties_[pc].scope != Scope::none, &instruction,
               &access, &properties_[pc]};
  global_.access(who, access);
}

/// The blocks of a cluster begin at one time or another; a barrier of the cluster, or news of a block, says that it
/// has.
void Checker::check_begun(const Accessor &who, const Access &access) {
  uint32_t &begun = warps_[who.agent].begun;
  for (uint32_t rest = access.mask; rest; rest &= rest - 1) {
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint32_t rank = static_cast<uint32_t>(access.address[lane]) >> memory::rank_shift;
    if (rank == who.warp->cta->rank || rank >= who.warp->cta->cluster->ctas.size() || begun >> rank & 1) continue;
    begun |= 1u << rank;
    bool known = false;
    for (uint32_t other = rank * warps_per_cta_; other < (rank + 1) * warps_per_cta_; other++)
      known |= clocks_.reaches(who.agent, other, 1) || clocks_.has_reached(who.agent, other);
    if (known) continue;
    checks_->reporter.report(Violation::remote_access, *who.warp, who.pc, no_pc, static_cast<int>(lane), [&] {
      return "accesses " + shared_place(static_cast<uint32_t>(access.address[lane])) +
             ", which may not have begun yet: no barrier of the cluster is in between";
    });
  }
}

/// Of lanes of one store that store to one place, one wins: which of them is left open.
void Checker::check_lanes(Warp &warp, const Instruction &instruction, const Access &access) {
  if (access.mask == all_lanes) {
    uint32_t rises = 0;
    for (uint32_t lane = 1; lane < lanes; lane++) rises += access.address[lane - 1] < access.address[lane];
    if (rises == lanes - 1) return;
  }
  constexpr uint32_t places = 64;
  std::array<uint8_t, places> lane_at;
  lane_at.fill(lanes);
  for (uint32_t rest = access.mask; rest; rest &= rest - 1) {
    const uint32_t lane = static_cast<uint32_t>(std::countr_zero(rest));
    uint32_t place = static_cast<uint32_t>(access.address[lane] * 0x9e3779b97f4a7c15u >> 58);
    while (lane_at[place] != lanes && access.address[lane_at[place]] != access.address[lane])
      place = (place + 1) % places;
    const uint32_t other = std::exchange(lane_at[place], static_cast<uint8_t>(lane));
    if (other == lanes ||
        access.digest(warp, instruction, lane, nullptr) == access.digest(warp, instruction, other, nullptr))
      continue;
    const uint32_t pc = pc_of(instruction);
    checks_->reporter.report(Violation::lane_race, warp, pc, pc, static_cast<int>(lane), [&] {
      return "lanes " + std::to_string(other) + " and " + std::to_string(lane) +
             " store different values to one place, of which either may stay";
    });
    return;
  }
}

void Checker::shared_access(Warp &warp, const Instruction &instruction, const Access &seen) {
  const uint32_t pc = pc_of(instruction);
  InstructionKind kind = properties_[pc].kind;
  Access access = seen;
  // Operations on an mbarrier are ordered by its phases. They come behind its making, whoever was the first of them,
  // and before its end.
  if (kind == InstructionKind::mbarrier && access.kind == AccessKind::atomic) access.kind = AccessKind::read;
  bool strong = access.kind == AccessKind::atomic || kind == InstructionKind::strong_access;
  Accessor who{&warp, agent_of(warp), 0, pc, strong || access.reduces, &instruction, &access, &properties_[pc]};
  if (warp.cta->cluster->ctas.size() > 1) check_begun(who, access);
  // A flag: whoever reads it afterwards knows the accesses before it.
  uint64_t flag = strong && kind != InstructionKind::mbarrier ? access.address[std::countr_zero(access.mask)] : 0;
  if (flag && access.kind != AccessKind::write) clocks_.acquire(who.agent, flag);
  const bool is_matrix = properties_[pc].matrix;
  shared_.access_rows(who, access, [&](uint32_t lane) {
    who.lane = lane;
    uint32_t address = static_cast<uint32_t>(access.address[lane]);
    bool unwritten = false;
    if (properties_[pc].loads && access.kind == AccessKind::read) who.unwritten = &unwritten;
    shared_.access(who, access.kind, address, access.bytes, access.async_proxy, access.key);
    if (unwritten) is_matrix ? read_unwritten_row(who, address) : read_unwritten(who, access, address);
  });
  if (access.kind == AccessKind::write && !warps_[who.agent].registers.missing().empty()) forget_missing(who, access);
  if (flag && access.kind != AccessKind::read) clocks_.release(who.agent, access.mask, warp.live, flag);
  if (properties_[pc].makes != Making::no)
    for (uint32_t rest = access.mask; rest; rest &= rest - 1) {
      const uint64_t mbarrier = access.address[std::countr_zero(rest)];
      properties_[pc].makes == Making::init ? mbarriers_.makes(who.agent, pc, mbarrier) : mbarriers_.ends(mbarrier);
    }
  if (access.kind == AccessKind::async_issue_write && access.async_proxy && access.key != 0)
    mbarriers_.used_by_proxy(warp, pc, access.key);
  // Bytes that arrive at an mbarrier carry the clock of their sender, and order none of its other accesses.
  if (access.kind == AccessKind::async_issue_write && access.key != 0)
    clocks_.signals(access.key, {}, clocks_.progress_of(who.agent));
  bool issues = access.kind == AccessKind::async_issue_read || access.kind == AccessKind::async_issue_write;
  if (!issues || access.key != 0 || (access.async_proxy && kind != InstructionKind::wgmma)) return;
  // Commit groups say when it is over.
  Operation operation;
  operation.ends = access.kind == AccessKind::async_issue_read ? AccessKind::async_end_read : AccessKind::async_land;
  operation.bytes = access.bytes;
  operation.mask = access.mask;
  operation.pc = pc;
  std::copy_n(access.address, lanes, operation.address.begin());
  if (kind == InstructionKind::wgmma)
    products_of(warp).read(warp.index % ProductReads::warps, operation);
  else
    warps_[who.agent].copies.issue(operation);
}

/// nvcc loads and stores gaps between fields along with the fields. Elements of a vector that nobody has written are
/// uninitialised values, which may be moved.
void Checker::read_unwritten(const Accessor &who, const Access &access, uint32_t address) {
  auto vector = vector_of(*checks_->reporter.launch().program, who.pc);
  const uint32_t bytes = access.bytes / static_cast<uint32_t>(vector.size());
  const auto is_written = [&](size_t i) {
    return shared_.is_written(address + static_cast<uint32_t>(i) * bytes, bytes);
  };
  bool some = false;
  for (size_t i = 0; i < vector.size(); i++) some |= is_written(i);
  Registers &registers = warps_[who.agent].registers;
  for (size_t i = 0; i < vector.size(); i++) {
    if (vector[i].kind != ptx::OperandKind::reg || is_written(i)) continue;
    if (some)
      registers.forget(vector[i].index, 1u << who.lane, who.pc);
    else
      registers.forget_all(vector[i].index, 1u << who.lane, who.pc, address);
  }
}

/// ldmatrix: the row whose address a lane gives goes to four lanes, or, transposed, to those that hold that row's pair.
void Checker::read_unwritten_row(const Accessor &who, uint32_t address) {
  const Program &program = *checks_->reporter.launch().program;
  auto vector = vector_of(program, who.pc);
  const uint32_t row = who.lane % 8, matrix = who.lane / 8;
  const bool transposed = program.module->opcodes[program.source(who.pc).opcode].has("trans");
  if (matrix < vector.size() && vector[matrix].kind == ptx::OperandKind::reg)
    warps_[who.agent].registers.forget_all(vector[matrix].index, transposed ? 0x11111111u << row / 2 : 0xfu << row * 4,
                                           who.pc, address);
}

void Checker::forget_missing(const Accessor &who, const Access &access) {
  auto vector = vector_of(*checks_->reporter.launch().program, who.pc);
  const uint32_t bytes = access.bytes / static_cast<uint32_t>(vector.size());
  for (const Registers::Missing &missing : warps_[who.agent].registers.missing())
    for (uint32_t rest = missing.lanes & access.mask; rest; rest &= rest - 1)
      for (size_t i = 0; i < vector.size(); i++)
        if (vector[i].kind == ptx::OperandKind::reg && vector[i].index == missing.reg)
          shared_.forget(static_cast<uint32_t>(access.address[std::countr_zero(rest)] + i * bytes), bytes);
}

void Checker::release(Warp &warp, uint32_t mask, uint64_t key) {
  clocks_.release(agent_of(warp), mask, warp.live, key);
}

void Checker::acquire(Warp &warp, uint32_t, uint64_t key) {
  clocks_.acquire(agent_of(warp), key);
}

/// The first wait that covers a product ends the reads of all four warps for it. From then on it is a separate event,
/// which other warps of the group know of when they have waited for it themselves, whichever warp was first.
void Checker::products_complete(Warp &warp, uint64_t count) {
  const uint64_t key = products_key | warpgroup_of(warp);
  const uint32_t agent = agent_of(warp);
  KnownOfAll reached =
      products_of(warp).wait(warp.index % ProductReads::warps, count, [&](const Operation &operation, uint64_t number) {
        Accessor who{&warp, clocks_.complete_at(key, static_cast<uint32_t>(number + 1)), 0, operation.pc, false};
        for (uint32_t rest = operation.mask; rest; rest &= rest - 1)
          shared_.access(who, operation.ends, operation.address[static_cast<uint32_t>(std::countr_zero(rest))],
                         operation.bytes, false, 0);
      });
  clocks_.acquire_up_to(agent, key, static_cast<uint32_t>(count));
  clocks_.join_progress(agent, reached);
}

void Checker::tensor_access(Warp &warp, const Instruction &instruction, const TensorAccess &access) {
  tensor_.access(warp, agent_of(warp), pc_of(instruction), access);
}

uint64_t Checker::progress_mark(Warp &warp) {
  uint32_t agent = agent_of(warp);
  marks_.push_back({clocks_.known(agent), clocks_.progress_of(agent)});
  return marks_.size() - 1;
}

/// Operations that were complete before another one was started, as its warp knew, are so when it ends.
void Checker::signals_too(uint64_t key, uint64_t other, uint64_t mark) {
  clocks_.signals_too(key, other);
  clocks_.signals(other, marks_[mark].known, marks_[mark].reached);
}

void Checker::mbarrier_arrives(Warp &warp, uint32_t mask, uint64_t key) {
  clocks_.arrive(agent_of(warp), mask, warp.live, key);
}

void Checker::mbarrier_passed(Warp &warp, const Instruction &instruction, uint32_t, uint64_t key) {
  mbarriers_.passed(warp, agent_of(warp), pc_of(instruction), key);
}

void Checker::mbarrier_ends_phase(Warp &warp, const Instruction &instruction, uint64_t key) {
  mbarriers_.ends_phase(warp, pc_of(instruction), key);
}

void Checker::lanes_meet(Warp &warp, uint32_t mask) {
  clocks_.meet(agent_of(warp), mask, warp.live);
}

void Checker::proxy_fence(Warp &warp, const Instruction &instruction, uint32_t mask) {
  clocks_.proxy_fence(agent_of(warp), mask, warp.live);
  if (properties_[pc_of(instruction)].kind == InstructionKind::map_fence) return global_.map_fence(agent_of(warp));
  mbarriers_.fence_of_proxy(agent_of(warp));
  if (!properties_[pc_of(instruction)].shared_only) global_.proxy_fence();
}

}  // namespace fa::emu::check

// An observer that records a timeline in addition to its other work.
#pragma once

#include "check/timeline.h"

namespace fa::emu::check {

template <class Base>
class Recording : public Base {
 public:
  template <class... Arguments>
  explicit Recording(Launch &launch, Arguments &&...arguments)
      : Base(std::forward<Arguments>(arguments)...), program_(*launch.program), recorder_(launch) {}

  void cta_begins(Cta &cta) override {
    Base::cta_begins(cta);
    if (cta.rank + 1 == cta.cluster->ctas.size()) recorder_.begin(*cta.cluster);
  }
  void instruction(Warp &warp, const Instruction &instruction, uint32_t mask) override {
    recorder_.instruction(warp, pc_of(instruction));
    Base::instruction(warp, instruction, mask);
  }
  void access(Warp &warp, const Instruction &instruction, const Access &access) override {
    issue(warp, instruction, access.kind, access.key);
    Base::access(warp, instruction, access);
  }
  void tensor_access(Warp &warp, const Instruction &instruction, const TensorAccess &access) override {
    if (access.pipe != 0) issue(warp, instruction, access.kind, access.key);
    Base::tensor_access(warp, instruction, access);
  }
  void release(Warp &warp, uint32_t mask, uint64_t key) override {
    recorder_.release(warp, key);
    Base::release(warp, mask, key);
  }
  void acquire(Warp &warp, uint32_t mask, uint64_t key) override {
    recorder_.acquire(warp, key);
    Base::acquire(warp, mask, key);
  }
  void mbarrier_passed(Warp &warp, const Instruction &instruction, uint32_t mask, uint64_t key) override {
    recorder_.passed(warp);
    Base::mbarrier_passed(warp, instruction, mask, key);
  }

 private:
  uint32_t pc_of(const Instruction &instruction) const {
    return static_cast<uint32_t>(&instruction - program_.code.data());
  }
  void issue(const Warp &warp, const Instruction &instruction, AccessKind kind, uint64_t key) {
    if (kind != AccessKind::async_issue_read && kind != AccessKind::async_issue_write) return;
    const uint32_t pc = pc_of(instruction);
    recorder_.issue(warp, pc, key,
                    program_.opcode(pc).find("mma") == std::string_view::npos ? Role::copy : Role::product);
  }

  const Program &program_;
  Recorder recorder_;
};

}  // namespace fa::emu::check

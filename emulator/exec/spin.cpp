// Compares a warp's state with an earlier one, one instruction at a time.
#include "exec/spin.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/groups.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

constexpr int longest_loop = 1 << 13;  // instructions of loops that are recognised
constexpr int max_comparisons = 16;    // of whole states: a loop that counts differs every time

struct Snapshot {
  std::vector<Group> groups;
  std::vector<uint8_t> registers;
};

template <class F>
void for_frames(const Warp &warp, F f) {
  const Program &program = *warp.cta->launch->program;
  for (uint32_t g = 0; g < warp.group_count; g++)
    for (const Frame *frame = warp.groups[g].frame; frame; frame = frame->caller)
      f(frame->registers, program.functions[frame->function].frame_bytes);
}

void take(const Warp &warp, Snapshot &snapshot) {
  snapshot.groups.assign(warp.groups, warp.groups + warp.group_count);
  snapshot.registers.clear();
  for_frames(warp, [&](const uint8_t *registers, uint32_t bytes) {
    snapshot.registers.insert(snapshot.registers.end(), registers, registers + bytes);
  });
}

bool same_place(const Warp &warp, const Snapshot &snapshot) {
  auto same = [](const Group &a, const Group &b) {
    return a.pc == b.pc && a.mask == b.mask && a.frame == b.frame && a.state == b.state && a.needed == b.needed;
  };
  return warp.group_count == snapshot.groups.size() &&
         std::equal(snapshot.groups.begin(), snapshot.groups.end(), warp.groups, same);
}

bool same_registers(const Warp &warp, const Snapshot &snapshot) {
  const uint8_t *at = snapshot.registers.data();
  bool same = true;
  for_frames(warp, [&](const uint8_t *registers, uint32_t bytes) {
    same = same && std::memcmp(registers, at, bytes) == 0;
    at += bytes;
  });
  return same;
}

}  // namespace

bool has_effect(const ptx::Opcode &opcode) {
  if (opcode.name == "mbarrier") return !opcode.has("test_wait") && !opcode.has("try_wait");
  for (const char *name : {"st", "stmatrix", "red", "cp", "bar", "barrier", "tcgen05", "wgmma", "multimem", "call",
                           "setmaxnreg", "griddepcontrol"})
    if (opcode.name == name) return true;
  return false;
}

bool spins(Warp &warp) {
  const Program &program = *warp.cta->launch->program;
  Snapshot snapshot;
  take(warp, snapshot);
  for (int step = 0, compared = 0; step < longest_loop && compared < max_comparisons; step++) {
    uint32_t group = select_group(warp);
    if (group != no_group && has_effect(program.module->opcodes[program.source(warp.groups[group].pc).opcode]))
      return false;
    uint32_t one = 1;
    Stop stop = run_warp(warp, one);
    if (stop == Stop::finished || stop == Stop::blocked) return false;
    if (!same_place(warp, snapshot)) continue;
    compared++;
    if (same_registers(warp, snapshot)) return true;
  }
  return false;
}

}  // namespace fa::emu

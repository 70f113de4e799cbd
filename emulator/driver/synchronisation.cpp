// Counts by program counter, sorted into kinds by the opcodes' modifiers.
#include "driver/synchronisation.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "driver/json.h"

namespace fa::emu::driver {
namespace {

const ptx::Opcode &opcode_of(const Program &program, uint32_t pc) {
  return program.module->opcodes[program.source(pc).opcode];
}

bool has_any(const ptx::Opcode &opcode, std::initializer_list<std::string_view> modifiers) {
  return std::any_of(modifiers.begin(), modifiers.end(), [&](std::string_view one) { return opcode.has(one); });
}

bool is_round_trip(const ptx::Opcode &opcode) {
  if (has_any(opcode, {"shared", "shared::cta", "shared::cluster", "cta", "cluster"})) return false;
  if (opcode.name == "atom") return true;
  return opcode.name == "ld" && has_any(opcode, {"volatile", "relaxed", "acquire", "mmio"});
}

bool is_reduction(const ptx::Opcode &opcode) {
  return opcode.name == "red" && !has_any(opcode, {"shared", "shared::cta", "shared::cluster", "async"});
}

/// Whether it waits until the warp's earlier writes are seen by the GPU or the system.
bool is_fence(const ptx::Opcode &opcode) {
  if (opcode.name == "membar") return has_any(opcode, {"gl", "sys"});
  if (!has_any(opcode, {"gpu", "sys"})) return false;
  if (opcode.name == "fence") return has_any(opcode, {"sc", "acq_rel", "release"}) && !opcode.has("proxy");
  return (opcode.name == "st" || opcode.name == "atom" || opcode.name == "red") &&
         has_any(opcode, {"release", "acq_rel"});
}

/// The iterations of warps in the innermost loop around an instruction.
void find_loop(const Launch &launch, Synchronisation &one) {
  const Program &program = *launch.program;
  uint32_t first = 0, last = UINT32_MAX;
  for (uint32_t pc = one.pc; pc < program.code.size(); pc++) {
    const Instruction &jump = program.code[pc];
    constexpr uint16_t only_waits = 2;
    if (jump.flow != Flow::branch || jump.target > one.pc || jump.detail == only_waits) continue;
    if (last == UINT32_MAX || pc - jump.target < last - first) first = jump.target, last = pc;
  }
  if (last == UINT32_MAX || launch.counts[first].warps == 0) return;
  one.first_line = program.source(first).line;
  one.last_line = program.source(last).line;
  one.per_iteration = static_cast<double>(one.warps) / static_cast<double>(launch.counts[first].warps);
}

const char *name_of(Synchronisation::Kind kind) {
  constexpr const char *names[] = {"round_trip", "reduction", "fence", "poll"};
  return names[kind];
}

uint64_t total(const std::vector<Synchronisation> &all, Synchronisation::Kind kind) {
  uint64_t sum = 0;
  for (const Synchronisation &one : all) sum += one.kind == kind ? one.warps : 0;
  return sum;
}

unsigned long long wide(uint64_t value) {
  return value;
}

}  // namespace

std::vector<Synchronisation> synchronisation_of(const Launch &launch) {
  std::vector<Synchronisation> result;
  const Program &program = *launch.program;
  for (uint32_t pc = 0; pc < launch.counts.size(); pc++) {
    const ptx::Opcode &opcode = opcode_of(program, pc);
    auto add = [&](Synchronisation::Kind kind, uint64_t warps) {
      if (warps == 0) return;
      Synchronisation one{kind, pc, warps};
      find_loop(launch, one);
      result.push_back(one);
    };
    const uint64_t warps = launch.counts[pc].warps - launch.skipped[pc];
    if (is_round_trip(opcode)) add(Synchronisation::round_trip, warps);
    if (is_reduction(opcode)) add(Synchronisation::reduction, warps);
    if (is_fence(opcode)) add(Synchronisation::fence, warps);
    if (auto found = launch.polls.find(pc); found != launch.polls.end()) add(Synchronisation::poll, found->second);
  }
  return result;
}

void print(const Launch &launch, const std::vector<Synchronisation> &all) {
  constexpr size_t max_lines = 24;
  if (all.empty()) return;
  std::fprintf(stderr, "fa-emu:   warps: %llu L2 round trips, %llu reductions, %llu fences, %llu polls in vain\n",
               wide(total(all, Synchronisation::round_trip)), wide(total(all, Synchronisation::reduction)),
               wide(total(all, Synchronisation::fence)), wide(total(all, Synchronisation::poll)));
  for (size_t i = 0; i < std::min(all.size(), max_lines); i++) {
    const Synchronisation &one = all[i];
    std::fprintf(stderr, "fa-emu:   %10llu  %s at %s", wide(one.warps), name_of(one.kind),
                 launch.program->place(one.pc).c_str());
    if (one.first_line)
      std::fprintf(stderr, ", %.3g an iteration of a warp in the loop of lines %u to %u", one.per_iteration,
                   one.first_line, one.last_line);
    std::fputs("\n", stderr);
  }
}

std::string json_of(const Launch &launch, const std::vector<Synchronisation> &all) {
  std::string text;
  auto add = [&](const char *name, Synchronisation::Kind kind) {
    text += std::string(",\"") + name + "\":" + std::to_string(total(all, kind));
  };
  add("l2_round_trips", Synchronisation::round_trip);
  add("l2_reductions", Synchronisation::reduction);
  add("fences", Synchronisation::fence);
  add("polls", Synchronisation::poll);
  text += ",\"synchronisation\":[";
  bool some = false;
  for (const Synchronisation &one : all) {
    text += std::string(some ? "," : "") + "{\"kind\":\"" + name_of(one.kind) +
            "\",\"ptx_line\":" + std::to_string(launch.program->source(one.pc).line) +
            ",\"ptx\":" + quoted(launch.program->opcode(one.pc)) + ",\"warps\":" + std::to_string(one.warps);
    if (one.first_line)
      text += ",\"loop\":[" + std::to_string(one.first_line) + "," + std::to_string(one.last_line) +
              "],\"per_iteration\":" + std::to_string(one.per_iteration);
    text += "}";
    some = true;
  }
  return text + "]";
}

}  // namespace fa::emu::driver

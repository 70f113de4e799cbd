// Grouping, so that the same launch gives the same findings whatever ran first.
#include "exec/finding.h"

#include <algorithm>

#include "exec/cta.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

constexpr size_t max_groups = 1000;

uint64_t number_in_grid(const Cta &cta) {
  const LaunchShape &shape = cta.launch->shape;
  return cta.id[0] + uint64_t{shape.grid[0]} * (cta.id[1] + uint64_t{shape.grid[1]} * cta.id[2]);
}

/// Whether it waits or orders memory, so that code behind it is another part of the program.
bool is_barrier(const Program &program, uint32_t pc) {
  const ptx::Opcode &opcode = program.module->opcodes[program.source(pc).opcode];
  for (std::string_view name : {"bar", "barrier", "fence", "membar"})
    if (opcode.name == name) return true;
  for (std::string_view modifier : {"wait", "wait_group", "wait_all", "try_wait", "test_wait"})
    if (opcode.has(modifier)) return true;
  return false;
}

bool ends_straight_code(const Program &program, uint32_t pc) {
  const Flow flow = program.code[pc].flow;
  return (flow != Flow::plain && flow != Flow::converging) || is_barrier(program, pc);
}

std::vector<uint32_t> straight_code(const Program &program) {
  std::vector<bool> begins(program.code.size() + 1);
  for (uint32_t pc = 0; pc < program.code.size(); pc++) {
    if (ends_straight_code(program, pc)) begins[pc + 1] = true;
    if (program.code[pc].flow == Flow::branch) begins[program.code[pc].target] = true;
  }
  for (const auto &table : program.tables)
    for (uint32_t target : table) begins[target] = true;
  for (const ProgramFunction &function : program.functions) begins[function.first] = true;
  std::vector<uint32_t> result(program.code.size());
  for (uint32_t pc = 1; pc < result.size(); pc++) result[pc] = begins[pc] ? pc : result[pc - 1];
  return result;
}

std::vector<uint32_t> barriers_before(const Program &program) {
  std::vector<uint32_t> result(program.code.size());
  for (uint32_t pc = 1; pc < result.size(); pc++) result[pc] = result[pc - 1] + is_barrier(program, pc - 1);
  return result;
}

bool is_race(Violation what) {
  return what == Violation::race || what == Violation::lane_race || what == Violation::grid_race ||
         what == Violation::equal_values || what == Violation::tensor_race;
}

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::formal:
      return "formal";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "error";
}

const ViolationClass &class_of(Violation what) {
  static const ViolationClass classes[] = {
      {"race"},
      {"lane-race"},
      {"grid-race"},
      {"pending-copy"},
      {"unwritten-memory"},
      {"unwritten-register"},
      {"proxy-fence"},
      {"pending-register"},
      {"unwaited"},
      {"wgmma-fence"},
      {"tensor-race"},
      {"tensor-fence", Severity::formal},
      {"pending-tensor"},
      {"lost-phase"},
      {"remote-access"},
      {"tensor-not-freed"},
      {"register-pool"},
      {"unused-memory", Severity::formal},
      {"equal-values", Severity::warning},
      {"unwaited-load", Severity::formal},
      {"unwaited-store", Severity::formal},
      {"cluster-request"},
      {"constant-written"},
      {"member-mask"},
      {"mbarrier-fence", Severity::formal},
      {"mbarrier-reuse"},
      {"serialised", Severity::formal},
      {"stream-race"},
      {"reader-fence", Severity::formal},
  };
  return classes[static_cast<size_t>(what)];
}

Findings::Place Findings::place_of(const Program &program, uint32_t pc) {
  if (pc == no_pc) return {no_pc, 0, 0, 0};
  if (straight_.empty()) straight_ = straight_code(program), barriers_ = barriers_before(program);
  const ptx::Instruction &source = program.source(pc);
  if (source.source.file) return {source.source.file, source.source.line, source.source.inlined_at, barriers_[pc]};
  return {0, straight_[pc], source.opcode, 0};
}

/// The group, where this is to be its first finding.
Findings::Group *Findings::count(Violation what, const Warp &warp, uint32_t pc, uint32_t other_pc) {
  const Cta &cta = *warp.cta;
  const Program &program = *cta.launch->program;
  auto [found, added] = known_.try_emplace({what, pc, other_pc}, 0);
  if (added) {
    Place here = place_of(program, pc), there = place_of(program, other_pc);
    // Which of two accesses without order comes first is chance.
    if (is_race(what) && there < here) std::swap(here, there);
    found->second = grouped_.try_emplace({what, here, there}, groups_.size()).first->second;
    if (found->second == groups_.size()) groups_.emplace_back();
  }
  Group &group = groups_[found->second];
  Finding &finding = group.finding;
  finding.what = what;
  finding.warps |= 1u << warp.index;
  finding.lines.insert(program.source(pc).line);
  if (is_race(what) && other_pc != no_pc) finding.lines.insert(program.source(other_pc).line);
  if (finding.blocks.size() < Finding::max_blocks) finding.blocks.insert(number_in_grid(cta));
  bool is_first = finding.count++ == 0 || cta.cluster->number < group.cluster;
  return is_first && found->second < max_groups ? &group : nullptr;
}

void Findings::describe(Group &group, const Warp &warp, uint32_t pc, uint32_t other_pc, int lane, std::string message) {
  const Program &program = *warp.cta->launch->program;
  group.finding.first = make_fault(warp, program.code[pc], FaultKind::check, lane, std::move(message));
  if (other_pc != no_pc) {
    const ptx::Instruction &other = program.source(other_pc);
    group.finding.other = program.place(other_pc);
    group.finding.other_source = program.module->name_of(other.source);
    group.finding.other_ptx = program.module->text_of_line(other.line);
  }
  group.cluster = warp.cta->cluster->number;
  group.arrival = arrivals_++;
}

void Findings::add(Violation what, const Warp &warp, const Instruction &instruction, int lane, std::string message) {
  uint32_t pc = static_cast<uint32_t>(&instruction - warp.cta->launch->program->code.data());
  add(what, warp, pc, no_pc, lane, [&] { return std::move(message); });
}

void Findings::add(Finding finding) {
  std::lock_guard lock(mutex_);
  groups_.push_back({std::move(finding), UINT64_MAX, arrivals_++});
}

size_t Findings::left_out() const {
  std::lock_guard lock(mutex_);
  return groups_.size() - std::min(groups_.size(), max_groups);
}

std::vector<Finding> Findings::all() const {
  std::lock_guard lock(mutex_);
  std::vector<const Group *> order;
  for (size_t i = 0; i < std::min(groups_.size(), max_groups); i++) order.push_back(&groups_[i]);
  std::sort(order.begin(), order.end(), [](const Group *a, const Group *b) {
    return std::tie(a->cluster, a->arrival) < std::tie(b->cluster, b->arrival);
  });
  std::vector<Finding> result;
  for (const Group *group : order) result.push_back(group->finding);
  return result;
}

}  // namespace fa::emu

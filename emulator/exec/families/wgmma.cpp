// wgmma (PTX ISA 9.7.15): fence, mma_async, commit_group, wait_group.
//
// A product is one operation of four warps, and so is the group that it is committed to: "creates a new wgmma-group per
// warpgroup" (9.7.15.7.2), and wait_group returns when the groups are complete (9.7.15.7.3). A warp may assume
// when its wait returns, therefore, that all four warps have issued the group's products, and that their reads of
// shared memory are over, those for the other warps' rows among them: one thread of the warpgroup may give the memory
// away, as CUTLASS' pipelines do. It may assume nothing of the other warps' registers, which each of them waits for
// itself, nor of other instructions of those warps: no wgmma is a barrier.
//
// Products happen when the first wait of a warp covers them: shared memory is read and accumulators are written as late
// as the program allows, so that a missing wait, or memory that is given away too early, shows in the results.
#include "exec/families/wgmma.h"

#include <algorithm>

#include "exec/dispatch.h"
#include "exec/families/wgmma_product.h"
#include "exec/fault.h"
#include "exec/late_copy.h"
#include "exec/launch.h"
#include "exec/operand_observer.h"

namespace fa::emu {
namespace {

using wgmma::Form;
using wgmma::form_of;
using wgmma::group_warps;
using wgmma::Product;

/// A warpgroup's products, by the order in which each of its warps issues them.
struct Warpgroup {
  struct Member {
    uint64_t issued = 0;          // products so far
    uint64_t waited = 0;          // of them, those that its waits have covered
    std::deque<uint64_t> groups;  // committed: how many products were issued by then
    const Instruction *last = nullptr;
  };
  std::deque<Product> in_flight;  // oldest first
  uint64_t landed = 0;            // before those
  Member members[group_warps];
};

struct Warpgroups : State {
  std::vector<Warpgroup> groups;  // by warp index / 4

  Warpgroup &of(const Warp &warp) {
    if (groups.empty()) groups.resize((warp.cta->warps.size() + group_warps - 1) / group_warps);
    return groups[warp.index / group_warps];
  }

  void at_exit(Cta &cta) override {
    if (!cta.launch->options.check) return;
    for (size_t i = 0; i < groups.size() * group_warps; i++) {
      const Warpgroup::Member &member = groups[i / group_warps].members[i % group_warps];
      if (member.waited == member.issued) continue;
      cta.launch->findings.add(Violation::unwaited, cta.warps[i], *member.last, -1,
                               "wgmma.mma_async is still in flight when the block ends: no wgmma.wait_group has "
                               "covered it");
    }
  }
};

Warpgroup::Member &member_of(Warpgroup &group, const Warp &warp) {
  return group.members[warp.index % group_warps];
}

[[noreturn]] void refuse(Warp &warp, const Instruction &instruction, std::string message) {
  fault(warp, instruction, FaultKind::illegal_instruction, -1, std::move(message));
}

/// A warp's share of a product's reads: its rows of A, all of B.
void observe_product(Warp &warp, const Product &product) {
  if (!warp.cta->cluster->observer) return;
  const Instruction &instruction = *product.instruction;
  Form form = form_of(instruction);
  if (!form.a_in_registers)
    observe_operand(warp, instruction, AccessKind::async_issue_read, warp.cta->rank, 0,
                    wgmma::source_of(warp, instruction, product.a_descriptor, form.a, form.a_transposed),
                    warp.index % group_warps * 16, 16);
  observe_operand(warp, instruction, AccessKind::async_issue_read, warp.cta->rank, 0,
                  wgmma::source_of(warp, instruction, product.b_descriptor, form.b, form.b_transposed), 0,
                  form.columns);
}

/// Computes all products before this one.
void land(Warp &warp, Warpgroup &group, uint64_t end) {
  if (end <= group.landed) return;
  size_t count = end - group.landed;
  wgmma::compute(warp, group.in_flight, count);
  group.in_flight.erase(group.in_flight.begin(), group.in_flight.begin() + static_cast<ptrdiff_t>(count));
  group.landed = end;
}

/// The value that a row has in all lanes.
uint64_t same_in_all(Warp &warp, const Instruction &instruction, Slot slot, char operand) {
  const uint64_t *row = warp.row<uint64_t>(slot);
  for (uint32_t lane = 1; lane < lanes; lane++)
    if (row[lane] != row[0])
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane),
            operand == 'A' ? "the matrix descriptor of A differs between the lanes of a warp"
                           : "the matrix descriptor of B differs between the lanes of a warp");
  return row[0];
}

/// A warp must issue the same product as the others of its warpgroup under the same number.
void expect_same(Warp &warp, const Product &mine, const Product &others) {
  const char *what = mine.instruction != others.instruction     ? "instruction"
                     : mine.a_descriptor != others.a_descriptor ? "matrix descriptor of A"
                     : mine.b_descriptor != others.b_descriptor ? "matrix descriptor of B"
                     : mine.accumulate != others.accumulate     ? "scale-d"
                                                                : nullptr;
  if (!what) return;
  std::string theirs =
      mine.instruction == others.instruction
          ? std::string()
          : ": another warp has executed " + warp.cta->launch->program->place(static_cast<uint32_t>(
                                                 others.instruction - warp.cta->launch->program->code.data()));
  refuse(warp, *mine.instruction,
         std::string("the ") + what + " differs between the warps of a warpgroup, which must execute the same wgmma" +
             theirs);
}

/// a, b: descriptors. c: scale-d. list: accumulators, then the fragment of A if it is in registers.
void issue(Warp &warp, const Instruction &instruction, uint32_t) {
  Form form = form_of(instruction);
  if ((warp.index / group_warps + 1) * group_warps > warp.cta->warps.size())
    refuse(
        warp, instruction,
        "wgmma needs four warps from a multiple of 4 on, and the block has " + std::to_string(warp.cta->warps.size()));
  Product mine;
  mine.instruction = &instruction;
  uint32_t scale = *warp.row<uint32_t>(instruction.c);
  if (scale != 0 && scale != all_lanes) refuse(warp, instruction, "scale-d differs between the lanes of a warp");
  mine.accumulate = scale != 0;
  if (!form.a_in_registers) {
    mine.a_descriptor = same_in_all(warp, instruction, instruction.a, 'A');
    wgmma::source_of(warp, instruction, mine.a_descriptor, form.a, form.a_transposed);
  }
  mine.b_descriptor = same_in_all(warp, instruction, instruction.b, 'B');
  wgmma::source_of(warp, instruction, mine.b_descriptor, form.b, form.b_transposed);

  Warpgroup &group = warp.cta->state<Warpgroups>().of(warp);
  Warpgroup::Member &member = member_of(group, warp);
  size_t number = member.issued - group.landed;
  if (number == group.in_flight.size()) group.in_flight.push_back(mine);
  Product &product = group.in_flight[number];
  expect_same(warp, mine, product);
  uint32_t place = warp.index % group_warps;
  product.issued |= 1u << place;
  product.frame[place] = warp.frame->registers;
  if (form.a_in_registers) {
    const Slot *fragment = warp.list(instruction) + wgmma::accumulator_registers(form);
    for (int r = 0; r < 4; r++) std::memcpy(product.a[place][r], warp.row<uint32_t>(fragment[r]), sizeof mine.a[0][0]);
  }
  member.issued++;
  member.last = &instruction;
  observe_product(warp, product);
  // Under a seed some products happen as soon as all four warps have issued them.
  bool complete = product.issued == (1u << group_warps) - 1;
  if (complete && warp.cta->launch->options.seed != 0 && warp.cta->cluster->random() % 4 == 0)
    land(warp, group, member.issued);
}

void commit(Warp &warp, const Instruction &, uint32_t) {
  Warpgroup::Member &member = member_of(warp.cta->state<Warpgroups>().of(warp), warp);
  member.groups.push_back(member.issued);
}

/// False, and the warp tries again, as long as other warps of the group have not issued all products before `end`.
bool all_have_issued(Warp &warp, const Instruction &instruction, const Warpgroup &group, uint64_t end) {
  for (uint32_t i = 0; i < group_warps; i++) {
    if (group.members[i].issued >= end) continue;
    const Warp &other = warp.cta->warps[warp.index / group_warps * group_warps + i];
    if (other.finished())
      refuse(warp, instruction,
             "warp " + std::to_string(other.index) + " of the warpgroup has ended after " +
                 std::to_string(group.members[i].issued) + " wgmma.mma_async, and this one waits for " +
                 std::to_string(end) + ", which all four warps must execute");
    warp.pause = Pause::retry;
    return false;
  }
  return true;
}

/// imm: groups that may stay in flight.
void wait(Warp &warp, const Instruction &instruction, uint32_t) {
  Warpgroup &group = warp.cta->state<Warpgroups>().of(warp);
  Warpgroup::Member &member = member_of(group, warp);
  size_t stay = static_cast<size_t>(instruction.imm);
  uint64_t end = member.waited;
  if (member.groups.size() > stay) end = member.groups[member.groups.size() - stay - 1];
  if (!all_have_issued(warp, instruction, group, end)) return;
  while (member.groups.size() > stay) member.groups.pop_front();
  member.waited = end;
  land(warp, group, end);
  Observer *observer = warp.cta->cluster->observer.get();
  if (observer && end > 0) observer->products_complete(warp, end);
}

/// The number, plus 1, of the warp's last product in flight that writes a register which the copy names; 0: none does.
uint64_t last_writer(Warp &warp, const Instruction &copy, const Warpgroup &group) {
  const uint32_t place = warp.index % group_warps;
  const auto named = [&](Slot slot) {
    const Slot *list = warp.list(copy);
    return slot.bits == copy.a.bits ||
           std::any_of(list, list + copy.list_count, [=](Slot one) { return one.bits == slot.bits; });
  };
  for (size_t i = group.in_flight.size(); i-- > 0;) {
    const Product &product = group.in_flight[i];
    if ((product.issued >> place & 1) == 0 || product.frame[place] != warp.frame->registers) continue;
    const Slot *results = warp.list(*product.instruction);
    if (std::any_of(results, results + wgmma::accumulator_registers(form_of(*product.instruction)), named))
      return group.landed + i + 1;
  }
  return 0;
}

/// Orders accesses to registers: nothing to do where products read theirs when they are issued.
void fence(Warp &, const Instruction &, uint32_t) {}

bool decode(Decoder &d) {
  if (d.has("mma_async")) return !d.has("sp") && wgmma::decode_product(d) && d.run(issue);
  d.converge_warp();
  if (d.has("fence")) return d.run(fence);
  if (d.has("commit_group")) return d.run(commit);
  if (!d.has("wait_group")) return false;
  d.out().imm = d.immediate(0);
  if (d.out().imm < 0 || d.out().imm > 7) d.fail("wgmma.wait_group takes 0 to 7");
  if (d.out().imm == 0) d.lands_late_results();
  d.pausing();
  return d.run(wait);
}

const Registration registration{{"wgmma", decode}};

}  // namespace

void copy_late_result(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const size_t first_of_group = warp.index / group_warps * group_warps;
  if (first_of_group + group_warps <= warp.cta->warps.size()) {
    Warpgroup &group = warp.cta->state<Warpgroups>().of(warp);
    const uint64_t end = last_writer(warp, instruction, group);
    if (!all_have_issued(warp, instruction, group, end)) return;
    land(warp, group, end);
  }
  warp.cta->launch->program->late_copies[instruction.target](warp, instruction, mask);
}

}  // namespace fa::emu

// Exchange between the lanes of a warp: shfl, vote, activemask, redux, elect, match.
#include "exec/shuffle.h"

#include <algorithm>
#include <functional>

#include "exec/dispatch.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// list[0]: the predicate "in range".
template <Shuffle mode>
void shuffle(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const uint32_t *a = warp.row<uint32_t>(instruction.a), *b = warp.row<uint32_t>(instruction.b);
  const uint32_t *c = warp.row<uint32_t>(instruction.c);
  uint32_t computed[lanes], inside = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    ShuffleSource source = shuffle_source(mode, lane, b[lane], c[lane]);
    computed[lane] = a[source.lane];
    inside |= uint32_t{source.in_range} << lane;
  }
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
  if (instruction.list_count) store_predicate(warp.row<uint32_t>(warp.list(instruction)[0]), inside, mask);
}

bool decode_shfl(Decoder &d) {
  if (!d.has("sync") || d.type() != Type::b32) return false;
  d.expect_operands(5, 5);
  d.out().a = d.source(1, Type::b32);
  d.out().b = d.source(2, Type::b32);
  d.out().c = d.source(3, Type::b32);
  d.converge_members(d.operand(4));
  d.out().dst = d.destination(0, Type::b32);
  if (Slot second = d.second_destination(0); second.exists()) d.list({second});
  return d.run(d.has("up")     ? shuffle<Shuffle::up>
               : d.has("down") ? shuffle<Shuffle::down>
               : d.has("bfly") ? shuffle<Shuffle::butterfly>
                               : shuffle<Shuffle::index>);
}

enum Vote : uint16_t { all, any, uni, ballot };

void vote(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t votes = (*warp.row<uint32_t>(instruction.a) ^ (instruction.imm ? all_lanes : 0)) & mask;
  if (instruction.detail == ballot) {
    uint32_t computed[lanes];
    std::fill_n(computed, lanes, votes);
    return store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
  }
  bool result = instruction.detail == all   ? votes == mask
                : instruction.detail == any ? votes != 0
                                            : votes == mask || votes == 0;
  store_predicate(warp.row<uint32_t>(instruction.dst), result ? all_lanes : 0, mask);
}

bool decode_vote(Decoder &d) {
  if (!d.has("sync")) return false;
  d.expect_operands(3, 3);
  d.out().detail = d.has("all") ? all : d.has("any") ? any : d.has("uni") ? uni : ballot;
  d.out().a = d.source(1, Type::pred);
  d.out().imm = d.operand(1).negated;
  d.converge_members(d.operand(2));
  d.out().dst = d.destination(0, d.out().detail == ballot ? Type::b32 : Type::pred);
  return d.run(vote);
}

void active_mask(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t computed[lanes];
  std::fill_n(computed, lanes, mask);
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
}

bool decode_activemask(Decoder &d) {
  d.expect_operands(1, 1);
  d.out().dst = d.destination(0, Type::b32);
  return d.run(active_mask);
}

template <class T, class F>
void reduce(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a);
  T result = a[__builtin_ctz(mask)];
  for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1) result = F{}(result, a[__builtin_ctz(rest)]);
  T computed[lanes];
  std::fill_n(computed, lanes, result);
  store_lanes(warp.row<T>(instruction.dst), computed, mask);
}

struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

bool decode_redux(Decoder &d) {
  Type type = d.type();
  if (ptx::bytes_of(type) != 4 || type == Type::f32) return false;
  d.expect_operands(3, 3);
  d.out().a = d.source(1, type);
  d.converge_members(d.operand(2));
  d.out().dst = d.destination(0, type);
  bool sign = type == Type::s32;
  if (d.has("add")) return d.run(reduce<uint32_t, std::plus<uint32_t>>);
  if (d.has("and")) return d.run(reduce<uint32_t, std::bit_and<uint32_t>>);
  if (d.has("or")) return d.run(reduce<uint32_t, std::bit_or<uint32_t>>);
  if (d.has("xor")) return d.run(reduce<uint32_t, std::bit_xor<uint32_t>>);
  if (d.has("min")) return d.run(sign ? reduce<int32_t, Smaller> : reduce<uint32_t, Smaller>);
  if (d.has("max")) return d.run(sign ? reduce<int32_t, Larger> : reduce<uint32_t, Larger>);
  return false;
}

/// elect.sync d|p, members: one lane, the first here, is the leader.
void elect(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t leader = static_cast<uint32_t>(__builtin_ctz(mask)), computed[lanes];
  std::fill_n(computed, lanes, leader);
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
  if (instruction.list_count) store_predicate(warp.row<uint32_t>(warp.list(instruction)[0]), 1u << leader, mask);
}

bool decode_elect(Decoder &d) {
  d.expect_operands(2, 2);
  d.converge_members(d.operand(1));
  d.out().dst = d.destination(0, Type::b32);
  if (Slot second = d.second_destination(0); second.exists()) d.list({second});
  return d.run(elect);
}

const Registration registration{{"shfl", decode_shfl},
                                {"vote", decode_vote},
                                {"activemask", decode_activemask},
                                {"redux", decode_redux},
                                {"elect", decode_elect}};

}  // namespace
}  // namespace fa::emu

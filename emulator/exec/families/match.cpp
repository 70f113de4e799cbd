// match.sync: which lanes of the members hold the same value (PTX ISA 9.7.13.9), and redux.sync of f32 (9.7.13.10).
#include <algorithm>
#include <cmath>

#include "exec/dispatch.h"
#include "exec/number.h"

namespace fa::emu {
namespace {

using ptx::Type;

template <class T>
void match_any(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a);
  uint32_t computed[lanes];
  for (uint32_t lane = 0; lane < lanes; lane++)
    computed[lane] = collect([&](uint32_t other) { return a[other] == a[lane]; }) & mask;
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
}

/// list[0]: the predicate "all are equal".
template <class T>
void match_all(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const T *a = warp.row<T>(instruction.a);
  T first = a[__builtin_ctz(mask)];
  bool equal = (collect([&](uint32_t lane) { return a[lane] == first; }) & mask) == mask;
  uint32_t computed[lanes];
  std::fill_n(computed, lanes, equal ? mask : 0);
  store_lanes(warp.row<uint32_t>(instruction.dst), computed, mask);
  if (instruction.list_count)
    store_predicate(warp.row<uint32_t>(warp.list(instruction)[0]), equal ? all_lanes : 0, mask);
}

bool decode_match(Decoder &d) {
  Type type = d.type();
  if (!d.has("sync") || (type != Type::b32 && type != Type::b64)) return false;
  d.expect_operands(3, 3);
  d.out().a = d.source(1, type);
  d.converge_members(d.operand(2));
  d.out().dst = d.destination(0, Type::b32);
  if (Slot second = d.second_destination(0); second.exists()) d.list({second});
  bool wide = type == Type::b64;
  if (d.has("any")) return d.run(wide ? match_any<uint64_t> : match_any<uint32_t>);
  return d.has("all") && d.run(wide ? match_all<uint64_t> : match_all<uint32_t>);
}

/// detail: the reduction.
enum Kind : uint16_t { larger = 1, absolute = 2, keep_nan = 4 };

void reduce_floats(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const float *a = warp.row<float>(instruction.a);
  float result = NAN;
  bool met_nan = false, first = true;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    float value = a[__builtin_ctz(rest)];
    if (instruction.detail & absolute) value = std::fabs(value);
    if (value != value) {
      met_nan = true;
      continue;
    }
    bool below = value < result || (value == result && std::signbit(value));
    bool above = value > result || (value == result && !std::signbit(value));
    if (first || (instruction.detail & larger ? above : below)) result = value;
    first = false;
  }
  if (met_nan && (instruction.detail & keep_nan)) result = NAN;
  float computed[lanes];
  std::fill_n(computed, lanes, canonical(result));
  store_lanes(warp.row<float>(instruction.dst), computed, mask);
}

bool decode_redux(Decoder &d) {
  if (d.type() != Type::f32 || (!d.has("min") && !d.has("max"))) return false;
  d.expect_operands(3, 3);
  d.out().a = d.source(1, Type::f32);
  d.converge_members(d.operand(2));
  d.out().dst = d.destination(0, Type::f32);
  d.out().detail = static_cast<uint16_t>((d.has("max") ? larger : 0) | (d.has("abs") ? absolute : 0) |
                                         (d.has("NaN") ? keep_nan : 0));
  return d.run(reduce_floats);
}

const Registration registration{{"match", decode_match}, {"redux", decode_redux}};

}  // namespace
}  // namespace fa::emu

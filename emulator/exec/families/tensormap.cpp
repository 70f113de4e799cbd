// tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.7.9.28 and 9.7.13.17): kernels that change tensor maps. A
// map is checked when something uses it, as it may be wrong between two changes.
#include <array>
#include <cstring>
#include <string>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/tensor_map.h"

namespace fa::emu {
namespace {

using ptx::Space;
using ptx::Type;

/// A field, by its modifier; ordinal: one value a dimension; part: of map_part.
struct Field {
  std::string_view name;
  bool ordinal;
  uint32_t part;
  Type type;
  uint64_t limit;  // of the new value
  void (*set)(TensorMap &map, uint32_t dimension, uint64_t value);
};

/// The values of .elemtype, in the ISA's order.
constexpr std::array element_types{
    TensorType::u8,       TensorType::u16,       TensorType::u32,        TensorType::s32,
    TensorType::u64,      TensorType::s64,       TensorType::f16,        TensorType::f32,
    TensorType::f32_ftz,  TensorType::f64,       TensorType::bf16,       TensorType::tf32,
    TensorType::tf32_ftz, TensorType::u4_align8, TensorType::u4_align16, TensorType::u6_align16};
constexpr uint64_t none = UINT64_MAX;
constexpr uint64_t mode_span128 = 3;

/// The swizzles of 128 bytes follow one another as the values of .swizzle_atomicity do.
TensorSwizzle span128_by(uint8_t atomicity) {
  return static_cast<TensorSwizzle>(static_cast<uint8_t>(TensorSwizzle::span128) + atomicity);
}

constexpr Field fields[] = {
    {"global_address", false, map_part::address, Type::b64, none,
     [](TensorMap &m, uint32_t, uint64_t v) { m.address = v; }},
    {"rank", false, map_part::optional, Type::b32, 4,
     [](TensorMap &m, uint32_t, uint64_t v) { m.rank = static_cast<uint32_t>(v) + 1; }},
    // Beyond these limits the value has no place in the map.
    {"box_dim", true, map_part::box, Type::b32, 65536,
     [](TensorMap &m, uint32_t d, uint64_t v) { m.box[d] = uint32_t(v); }},
    {"global_dim", true, map_part::extent, Type::b32, none,
     [](TensorMap &m, uint32_t d, uint64_t v) { m.extent[d] = v; }},
    {"global_stride", true, map_part::stride, Type::b64, none,
     [](TensorMap &m, uint32_t d, uint64_t v) { m.stride[d + 1] = v; }},
    {"element_stride", true, map_part::step, Type::b32, 255,
     [](TensorMap &m, uint32_t d, uint64_t v) { m.step[d] = uint32_t(v); }},
    {"elemtype", false, map_part::optional, Type::b32, element_types.size() - 1,
     [](TensorMap &m, uint32_t, uint64_t v) { m.type = element_types[v]; }},
    {"interleave_layout", false, map_part::optional, Type::b32, 2,
     [](TensorMap &m, uint32_t, uint64_t v) { m.interleave = static_cast<TensorInterleave>(v); }},
    {"swizzle_mode", false, map_part::optional, Type::b32, mode_span128,
     [](TensorMap &m, uint32_t, uint64_t v) {
       m.swizzle = v == mode_span128 ? span128_by(m.atomicity) : static_cast<TensorSwizzle>(v);
     }},
    {"swizzle_atomicity", false, map_part::optional, Type::b32, 3,
     [](TensorMap &m, uint32_t, uint64_t v) {
       m.atomicity = static_cast<uint8_t>(v);
       if (m.swizzle >= TensorSwizzle::span128) m.swizzle = span128_by(m.atomicity);
     }},
    {"fill_mode", false, map_part::optional, Type::b32, 1,
     [](TensorMap &m, uint32_t, uint64_t v) { m.fill = static_cast<TensorFill>(v); }},
};

/// detail: number of the field; target: the dimension; b: the new value.
void replace(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const Field &field = fields[instruction.detail];
  Resolved memory;
  resolve(warp, instruction, mask, tensor_map_bytes, 64, memory);
  observe(warp, instruction, AccessKind::read, mask, tensor_map_bytes, memory);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    TensorMap map;
    auto refuse = [&](const std::string &message) {
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane), message);
    };
    if (!decode_or_begin(memory.at[lane], map))
      refuse("there is no tensor map at this address, and no 128 bytes of zeros to make one of");
    uint64_t value = field.type == Type::b64 ? warp.row<uint64_t>(instruction.b)[lane]
                                             : uint64_t{warp.row<uint32_t>(instruction.b)[lane]};
    if (value > field.limit)
      refuse(std::string(field.name) + " " + std::to_string(value) + ": at most " + std::to_string(field.limit));
    field.set(map, instruction.target, value);
    map.set |= field.part << instruction.target;
    encode(map, memory.at[lane]);
  }
  observe(warp, instruction, AccessKind::write, mask, tensor_map_bytes, memory);
}

bool decode_replace(Decoder &d) {
  for (size_t i = 0; i < std::size(fields); i++) {
    if (!d.has(fields[i].name)) continue;
    size_t count = fields[i].ordinal ? 3 : 2;
    d.expect_operands(count, count);
    d.address(0);
    if (fields[i].ordinal) {
      int64_t dimension = d.immediate(1), end = fields[i].name == "global_stride" ? 4 : 5;
      if (dimension < 0 || dimension >= end) d.fail("there is no dimension " + std::to_string(dimension));
      d.out().target = static_cast<uint32_t>(dimension);
    }
    d.out().b = d.source(count - 1, fields[i].type);
    d.out().detail = static_cast<uint16_t>(i);
    return d.run(replace);
  }
  return false;
}

/// The warp copies one map from shared to global memory; a, imm: the source; b, target: the destination and its
/// displacement.
void copy_map(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t lane = static_cast<uint32_t>(__builtin_ctz(mask)), one = 1u << lane;
  Resolved from, to;
  addresses(warp, instruction, from.address);
  resolve(warp, instruction, Space::shared, one, tensor_map_bytes, 64, from);
  addresses(warp, AddressBase::row64, instruction.b, static_cast<int32_t>(instruction.target), to.address);
  resolve(warp, instruction, Space::global, one, tensor_map_bytes, 64, to);
  observe(warp, instruction, AccessKind::read, one, tensor_map_bytes, from);
  std::memcpy(to.at[lane], from.at[lane], tensor_map_bytes);
  observe(warp, instruction, AccessKind::write, one, tensor_map_bytes, to);
}

bool decode_copy(Decoder &d) {
  d.expect_operands(3, 3);
  if (d.immediate(2) != tensor_map_bytes) d.fail("tensor maps have 128 bytes");
  Decoder::Address to = d.wide_address_of(d.operand(0));
  d.out().b = to.row;
  d.out().target = static_cast<uint32_t>(to.displacement);
  d.address(1);
  d.converge_warp();
  return d.run(copy_map);
}

bool decode_tensormap(Decoder &d) {
  if (d.has("replace")) return decode_replace(d);
  return d.has("cp_fenceproxy") && decode_copy(d);
}

const Registration registration{{"tensormap", decode_tensormap}};

}  // namespace
}  // namespace fa::emu

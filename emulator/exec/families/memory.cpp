// ld and st of all spaces, widths and vectors (PTX ISA 9.7.9). Cache modifiers change nothing here. Strong accesses
// (.volatile .relaxed .acquire .release .mmio) are whole for other host threads and keep their order.
#include <atomic>
#include <cstring>
#include <type_traits>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/launch.h"

namespace fa::emu {
namespace {

using ptx::Space;
using ptx::Type;

struct Bits128 {
  uint64_t low, high;
};

/// A strong access of one element; acquire and release, whether asked for or not: hosts have them almost for nothing.
template <class M>
M read_strong(const uint8_t *at) {
  M value;
  if constexpr (sizeof(M) <= 8) {
    value = std::atomic_ref<M>(*reinterpret_cast<M *>(const_cast<uint8_t *>(at))).load(std::memory_order_acquire);
  } else {
    std::memcpy(&value, at, sizeof value);
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  return value;
}
template <class M>
void write_strong(uint8_t *at, M value) {
  if constexpr (sizeof(M) <= 8) {
    std::atomic_ref<M>(*reinterpret_cast<M *>(at)).store(value, std::memory_order_release);
  } else {
    std::atomic_thread_fence(std::memory_order_release);
    std::memcpy(at, &value, sizeof value);
  }
}

/// Whether one lane's element is behind the other's.
template <class M>
bool in_a_row(const Resolved &memory) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(memory.at[0]);
  uintptr_t differs = 0;
  for (uint32_t lane = 0; lane < lanes; lane++)
    differs |= reinterpret_cast<uintptr_t>(memory.at[lane]) ^ (first + lane * sizeof(M));
  return differs == 0;
}

/// Memory holds M, the register R (as wide or wider; sign or zero goes into the rest). detail: whether it is strong.
template <class M, class R, bool observed>
void load(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t bytes = sizeof(M) * instruction.list_count;
  Resolved memory;
  resolve(warp, instruction, mask, bytes, bytes, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::read, mask, bytes, memory);
  const Slot *registers = warp.list(instruction);
  const bool strong = instruction.detail;
  if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4)
    if (mask == all_lanes && !strong && instruction.list_count == 1 && in_a_row<M>(memory))
      return std::memcpy(warp.row<R>(registers[0]), memory.at[0], sizeof(M) * lanes), void();
  for (uint32_t e = 0; e < instruction.list_count; e++) {
    R *row = warp.row<R>(registers[e]);
    if (strong) {
      for (uint32_t rest = mask; rest; rest &= rest - 1) {
        uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
        M value = read_strong<M>(memory.at[lane] + e * sizeof(M));
        if constexpr (std::is_same_v<M, R>)
          row[lane] = value;
        else
          row[lane] = static_cast<R>(value);
      }
      continue;
    }
    auto read = [&](uint32_t lane) {
      M value;
      std::memcpy(&value, memory.at[lane] + e * sizeof(M), sizeof(M));
      if constexpr (std::is_same_v<M, R>)
        row[lane] = value;
      else
        row[lane] = static_cast<R>(value);
    };
    if (mask == all_lanes)
      for (uint32_t lane = 0; lane < lanes; lane++) read(lane);
    else
      for (uint32_t rest = mask; rest; rest &= rest - 1) read(static_cast<uint32_t>(__builtin_ctz(rest)));
  }
}

/// Access::digest of a store: FNV-1a over its elements.
template <class M, class R>
uint32_t digest(const Warp &warp, const Instruction &instruction, uint32_t lane, const uint8_t *at) {
  uint32_t result = 2166136261u;
  for (uint32_t e = 0; e < instruction.list_count; e++) {
    M value;
    if (at)
      std::memcpy(&value, at + e * sizeof(M), sizeof(M));
    else if constexpr (std::is_same_v<M, R>)
      value = warp.row<R>(warp.list(instruction)[e])[lane];
    else
      value = static_cast<M>(warp.row<R>(warp.list(instruction)[e])[lane]);
    uint8_t bytes[sizeof(M)];
    std::memcpy(bytes, &value, sizeof(M));
    for (uint8_t byte : bytes) result = (result ^ byte) * 16777619u;
  }
  return result;
}

template <class M, class R, bool observed>
void store(Warp &warp, const Instruction &instruction, uint32_t mask) {
  uint32_t bytes = sizeof(M) * instruction.list_count;
  Resolved memory;
  resolve(warp, instruction, mask, bytes, bytes, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::write, mask, bytes, memory, digest<M, R>);
  const Slot *registers = warp.list(instruction);
  if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4)
    if (mask == all_lanes && !instruction.detail && instruction.list_count == 1 && in_a_row<M>(memory))
      return std::memcpy(memory.at[0], warp.row<R>(registers[0]), sizeof(M) * lanes), void();
  // Lane by lane: of lanes that write one address, the last one's value stays whole.
  for (uint32_t e = 0; e < instruction.list_count; e++) {
    const R *row = warp.row<R>(registers[e]);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
      M value;
      if constexpr (std::is_same_v<M, R>)
        value = row[lane];
      else
        value = static_cast<M>(row[lane]);
      if (instruction.detail)
        write_strong(memory.at[lane] + e * sizeof(M), value);
      else
        std::memcpy(memory.at[lane] + e * sizeof(M), &value, sizeof(M));
    }
  }
}

/// A parameter at a fixed place is the same for all lanes.
template <class M, class R>
void load_parameter(Warp &warp, const Instruction &instruction, uint32_t mask) {
  const auto &parameters = warp.cta->launch->parameters;
  const uint32_t bytes = sizeof(M) * instruction.list_count;
  const uint64_t offset = static_cast<uint64_t>(instruction.imm);
  const uint8_t *at = parameters.data() + offset;
  if (offset % bytes || offset > parameters.size() || parameters.size() - offset < bytes) {
    Resolved memory;
    resolve(warp, instruction, mask, bytes, bytes, memory);
    at = memory.at[__builtin_ctz(mask)];
  }
  for (uint32_t e = 0; e < instruction.list_count; e++) {
    M value;
    std::memcpy(&value, at + e * sizeof(M), sizeof(M));
    R computed[lanes];
    for (uint32_t lane = 0; lane < lanes; lane++) {
      if constexpr (std::is_same_v<M, R>)
        computed[lane] = value;
      else
        computed[lane] = static_cast<R>(value);
    }
    store_lanes(warp.row<R>(warp.list(instruction)[e]), computed, mask);
  }
}

struct Forms {
  Handler load = nullptr, watched_load = nullptr, store = nullptr, watched_store = nullptr, parameter = nullptr;
};

template <class M, class R>
Forms forms() {
  return {load<M, R, false>, load<M, R, true>, store<M, R, false>, store<M, R, true>, load_parameter<M, R>};
}

template <class M>
Forms in_register(uint32_t width) {
  if constexpr (sizeof(M) <= 2)
    if (width == 2) return forms<M, std::conditional_t<std::is_signed_v<M>, int16_t, uint16_t>>();
  if constexpr (sizeof(M) <= 4)
    if (width == 4) return forms<M, std::conditional_t<std::is_signed_v<M>, int32_t, uint32_t>>();
  if constexpr (sizeof(M) <= 8)
    if (width == 8) return forms<M, std::conditional_t<std::is_signed_v<M>, int64_t, uint64_t>>();
  return {};
}

Forms forms_of(Type type, uint32_t width) {
  bool sign = ptx::is_signed(type);
  switch (ptx::bytes_of(type)) {
    case 1:
      return sign ? in_register<int8_t>(width) : in_register<uint8_t>(width);
    case 2:
      return sign ? in_register<int16_t>(width) : in_register<uint16_t>(width);
    case 4:
      return sign ? in_register<int32_t>(width) : in_register<uint32_t>(width);
    case 8:
      return in_register<uint64_t>(width);
    case 16:
      return width == 16 ? forms<Bits128, Bits128>() : Forms{};
    default:
      return {};
  }
}

uint32_t vector_length(const Decoder &d) {
  return d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1;
}

bool decode_access(Decoder &d, bool loading) {
  Type type = d.type();
  size_t address = loading ? 1 : 0, data = loading ? 0 : 1;
  d.expect_operands(2, 3);  // a cache policy may follow
  auto elements = d.elements(data);
  if (elements.size() != vector_length(d)) d.fail("a vector whose length is not the opcode's");
  std::vector<Slot> slots;
  uint32_t width = 0;
  for (const ptx::Operand &element : elements) {
    uint32_t own = 0;
    if (element.kind == ptx::OperandKind::sink) {
      slots.emplace_back();  // as wide as the others, which may come behind it
      continue;
    }
    slots.push_back(loading ? d.wide_destination(element, type, own) : d.wide_source(element, type, own));
    if (width != 0 && own != width) d.fail("a vector of registers of different widths");
    width = own;
  }
  Type wide = width == 2 ? Type::b16 : width == 4 ? Type::b32 : width == 8 ? Type::b64 : type;
  for (size_t e = 0; e < elements.size(); e++)
    if (!slots[e].exists())
      slots[e] = loading ? d.wide_destination(elements[e], wide, width) : d.wide_source(elements[e], wide, width);
  Forms handlers = forms_of(type, width);
  if (!handlers.load) d.fail("a register that is too narrow for ." + std::string(ptx::name_of(type)));
  for (const char *modifier : {"volatile", "relaxed", "acquire", "release", "mmio"})
    if (d.has(modifier)) d.out().detail = 1;
  d.address(address);
  d.list(slots);
  bool fixed = d.out().base == AddressBase::none && d.out().space == Space::param;
  if (loading && fixed) return d.run(handlers.parameter);
  return loading ? d.run(handlers.load, handlers.watched_load) : d.run(handlers.store, handlers.watched_store);
}

bool decode_ld(Decoder &d) {
  return decode_access(d, true);
}
bool decode_st(Decoder &d) {
  return !d.has("async") && !d.has("bulk") && decode_access(d, false);
}

const Registration registration{{"ld", decode_ld}, {"ldu", decode_ld}, {"st", decode_st}};

}  // namespace
}  // namespace fa::emu

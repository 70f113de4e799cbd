// atom and red, scalar and vector (PTX ISA 9.7.13, atom and red). Blocks run on several host threads: memory that is
// not shared memory is replaced by compare-and-swap.
#include "exec/families/atomic.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "exec/access.h"
#include "exec/dispatch.h"

namespace fa::emu {
namespace {

using ptx::Space;
using ptx::Type;

/// A value of 128 bits, which hosts have no portable atomic operations for.
struct Bits128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Bits128 &) const = default;
};
std::mutex wide_mutex;

template <class Operation, class Bits = typename Operation::Bits>
Bits update(uint8_t *at, Bits b, Bits c, Space space) {
  Bits old;
  if constexpr (sizeof(Bits) == 16) {
    std::lock_guard lock(wide_mutex);
    std::memcpy(&old, at, sizeof old);
    Bits replacement = Operation::of(old, b, c, true);
    std::memcpy(at, &replacement, sizeof replacement);
  } else if (space == Space::shared) {
    std::memcpy(&old, at, sizeof old);
    Bits replacement = Operation::of(old, b, c, false);
    std::memcpy(at, &replacement, sizeof replacement);
  } else {
    std::atomic_ref<Bits> memory(*reinterpret_cast<Bits *>(at));
    old = memory.load();
    while (!memory.compare_exchange_weak(old, Operation::of(old, b, c, true))) {
    }
  }
  return old;
}

/// Whether a lane's address is in shared memory, which a generic instruction decides lane by lane.
Space space_of(const Warp &warp, const uint8_t *at) {
  for (const Cta &cta : warp.cta->cluster->ctas)
    if (at >= cta.shared && at < cta.shared + cta.shared_bytes) return Space::shared;
  return Space::global;
}

/// list: results (of atom only), then values b, then c where there is one. detail: elements of the vector, and bit 7:
/// there are results. imm is the displacement.
enum Detail : uint16_t { count_bits = 15, has_results = 128, has_third = 256 };

template <class Operation, bool observed>
void modify(Warp &warp, const Instruction &instruction, uint32_t mask) {
  using Bits = typename Operation::Bits;
  uint32_t count = instruction.detail & count_bits, bytes = count * sizeof(Bits);
  Resolved memory;
  resolve(warp, instruction, mask, bytes, bytes, memory);
  if constexpr (observed) observe(warp, instruction, AccessKind::atomic, mask, bytes, memory);
  const Slot *results = warp.list(instruction);
  const Slot *values = results + (instruction.detail & has_results ? count : 0);
  for (uint32_t e = 0; e < count; e++) {
    const Bits *b = warp.row<Bits>(values[e]);
    const Bits *c = instruction.detail & has_third ? warp.row<Bits>(values[count]) : b;
    Bits old[lanes]{};
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
      uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
      Space space = memory.uniform ? memory.space : space_of(warp, memory.at[lane]);
      old[lane] = update<Operation>(memory.at[lane] + e * sizeof(Bits), b[lane], c[lane], space);
    }
    if (instruction.detail & has_results) store_lanes(warp.row<Bits>(results[e]), old, mask);
  }
}

struct Forms {
  Handler plain = nullptr, watched = nullptr;
};
template <class Operation>
Forms forms() {
  return {modify<Operation, false>, modify<Operation, true>};
}

template <class Bits>
Forms bitwise(const Decoder &d) {
  if constexpr (sizeof(Bits) == 4 || sizeof(Bits) == 8) {
    if (d.has("and")) return forms<atomic::And<Bits>>();
    if (d.has("or")) return forms<atomic::Or<Bits>>();
    if (d.has("xor")) return forms<atomic::Xor<Bits>>();
  }
  if (d.has("exch")) return forms<atomic::Exchange<Bits>>();
  if (d.has("cas")) return forms<atomic::CompareAndSwap<Bits>>();
  return {};
}

template <class T>
Forms of_integers(const Decoder &d) {
  if (d.has("add")) return forms<atomic::Add<T>>();
  if (d.has("min")) return forms<atomic::Extreme<T, false>>();
  if (d.has("max")) return forms<atomic::Extreme<T, true>>();
  if constexpr (sizeof(T) == 4) {
    if (d.has("inc")) return forms<atomic::Increment>();
    if (d.has("dec")) return forms<atomic::Decrement>();
  }
  return bitwise<std::make_unsigned_t<T>>(d);
}

template <class Kind, class Bits>
Forms of_halves(const Decoder &d) {
  if (d.has("add")) return forms<atomic::OfHalves<Kind, atomic::Plus, Bits>>();
  if (d.has("min")) return forms<atomic::OfHalves<Kind, atomic::Least, Bits>>();
  if (d.has("max")) return forms<atomic::OfHalves<Kind, atomic::Greatest, Bits>>();
  return {};
}

Forms operation(const Decoder &d, Type type) {
  switch (type) {
    case Type::b16:
    case Type::u16:
      return d.has("cas") ? forms<atomic::CompareAndSwap<uint16_t>>() : Forms{};
    case Type::b32:
      return bitwise<uint32_t>(d);
    case Type::b64:
      return bitwise<uint64_t>(d);
    case Type::b128:
      return bitwise<Bits128>(d);
    case Type::u32:
      return of_integers<uint32_t>(d);
    case Type::s32:
      return of_integers<int32_t>(d);
    case Type::u64:
      return of_integers<uint64_t>(d);
    case Type::s64:
      return of_integers<int64_t>(d);
    case Type::f32:
      return d.has("add") ? forms<atomic::AddF32>() : bitwise<uint32_t>(d);
    case Type::f64:
      return d.has("add") ? forms<atomic::AddF64>() : bitwise<uint64_t>(d);
    case Type::f16:
      return of_halves<atomic::Half, uint16_t>(d);
    case Type::bf16:
      return of_halves<atomic::Bfloat, uint16_t>(d);
    case Type::f16x2:
      return of_halves<atomic::Half, uint32_t>(d);
    case Type::bf16x2:
      return of_halves<atomic::Bfloat, uint32_t>(d);
    default:
      return {};
  }
}

bool decode(Decoder &d, bool results) {
  if (d.has("async") || d.opcode().types.size() != 1) return false;
  Forms handlers = operation(d, d.type());
  if (!handlers.plain) return false;
  Space space = d.space();
  if (space != Space::generic && space != Space::global && space != Space::shared)
    d.fail("atomic operations work on global and shared memory");
  size_t address = results ? 1 : 0;
  bool three = d.has("cas");
  d.expect_operands(address + 2 + three, address + 3 + three);  // a cache policy may follow
  auto values = d.elements(address + 1);
  size_t vector = d.has("v2") ? 2 : d.has("v4") ? 4 : d.has("v8") ? 8 : 1;
  if (values.size() != vector || (results && d.elements(0).size() != vector))
    d.fail("a vector whose length is not the opcode's");
  d.address(address);
  std::vector<Slot> slots, sources;
  for (const ptx::Operand &value : values) sources.push_back(d.source(value, d.type()));
  if (three) sources.push_back(d.source(address + 2, d.type()));
  if (results)
    for (const ptx::Operand &result : d.elements(0)) slots.push_back(d.destination(result, d.type()));
  slots.insert(slots.end(), sources.begin(), sources.end());
  d.list(slots);
  d.out().detail = static_cast<uint16_t>(vector | (results ? has_results : 0) | (three ? has_third : 0));
  return d.run(handlers.plain, handlers.watched);
}

bool decode_atom(Decoder &d) {
  return decode(d, true);
}
bool decode_red(Decoder &d) {
  return decode(d, false);
}

const Registration registration{{"atom", decode_atom}, {"red", decode_red}};

}  // namespace
}  // namespace fa::emu

// st.async and red.async (PTX ISA 9.7.9.13 and 9.7.13.8): writes to the shared memory of another block of the cluster
// that signal an mbarrier there when they have landed.
#include <array>
#include <cstring>

#include "exec/access.h"
#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/mbarrier.h"
#include "exec/reduce.h"

namespace fa::emu {
namespace {

using ptx::Type;

/// The store that one lane has in flight.
struct Store {
  Warp &warp;
  const Instruction &instruction;
  int lane;
  uint32_t address, mbarrier, bytes;
  std::array<uint8_t, 16> data;
  Reduce reduce;

  void land() const {
    uint8_t *at = shared_at(warp, instruction, lane, address, bytes);
    reduce ? reduce(at, data.data(), bytes) : (std::memcpy(at, data.data(), bytes), void());
    report(AccessKind::async_land);
    mbarrier_complete(warp, instruction, lane, mbarrier, bytes);
  }

  void report(AccessKind kind) const {
    Observer *observer = warp.cta->cluster->observer.get();
    if (!observer) return;
    uint64_t addresses[lanes] = {};
    addresses[lane] = address;
    Access access;
    access.space = ptx::Space::shared;
    access.kind = kind;
    access.bytes = bytes;
    access.mask = 1u << lane;
    access.address = addresses;
    access.reduces = reduce != nullptr;
    access.key = mbarrier;
    observer->access(warp, instruction, access);
  }
};

/// a, imm: destination; b, target: mbarrier and its displacement; list: values. detail: bytes of one, from bit 4 on
/// the reduction, from bit 8 on its type.
void store_async(Warp &warp, const Instruction &instruction, uint32_t mask) {
  Resolved to, barriers;
  uint32_t one = instruction.detail & 15u, bytes = one * instruction.list_count;
  resolve(warp, instruction, mask, bytes, bytes, to);
  addresses(warp, instruction.base, instruction.b, static_cast<int32_t>(instruction.target), barriers.address);
  resolve(warp, instruction, ptx::Space::shared, mask, 8, 8, barriers);
  auto reduction = static_cast<Reduction>(instruction.detail >> 4 & 15);
  Reduce reduce = reduce_of(reduction, static_cast<Type>(instruction.detail >> 8));
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(rest));
    Store store{warp,
                instruction,
                static_cast<int>(lane),
                static_cast<uint32_t>(to.address[lane]),
                static_cast<uint32_t>(barriers.address[lane]),
                bytes,
                {},
                reduce};
    for (uint32_t e = 0; e < instruction.list_count; e++)
      std::memcpy(&store.data[e * one], warp.row<uint8_t>(warp.list(instruction)[e]) + lane * one, one);
    store.report(AccessKind::async_issue_write);
    warp.cta->cluster->async.push_back({[store] { store.land(); }, 0});
  }
}

/// Fewer than other reductions have.
bool has_reduction(Reduction reduction, Type type) {
  switch (reduction) {
    case Reduction::add:
      return type == Type::u32 || type == Type::s32 || type == Type::u64 || type == Type::s64;
    case Reduction::min:
    case Reduction::max:
      return type == Type::u32 || type == Type::s32;
    case Reduction::inc:
    case Reduction::dec:
      return type == Type::u32;
    case Reduction::bit_and:
    case Reduction::bit_or:
    case Reduction::bit_xor:
      return type == Type::b32;
    case Reduction::none:
      break;
  }
  return false;
}

bool decode(Decoder &d, bool reducing) {
  if (!d.has("async") || !d.has("mbarrier::complete_tx::bytes") || d.has("bulk")) return false;
  d.expect_operands(3, 3);
  Type type = d.type();
  uint32_t bytes = ptx::bytes_of(type);
  Reduction reduction = reducing ? reduction_of(d.opcode()) : Reduction::none;
  if (bytes != 4 && bytes != 8) return false;
  if (reducing && !has_reduction(reduction, type)) d.fail("red.async has no such reduction");
  std::vector<Slot> values;
  for (const ptx::Operand &element : d.elements(1)) values.push_back(d.source(element, type));
  if (reducing && values.size() > 1) d.fail("red.async takes one value");
  if (values.size() * bytes > 16) d.fail("more than 16 bytes");
  Decoder::Address mbarrier = d.address_of(d.operand(2));
  d.address(0);
  if (mbarrier.base != d.out().base) d.fail("both addresses need registers of the same width");
  d.out().b = mbarrier.row;
  d.out().target = static_cast<uint32_t>(mbarrier.displacement);
  d.out().space = ptx::Space::shared;
  d.out().detail =
      static_cast<uint16_t>(bytes | static_cast<uint32_t>(reduction) << 4 | static_cast<uint32_t>(type) << 8);
  d.list(values);
  return d.run(store_async);
}

bool decode_st(Decoder &d) {
  return decode(d, false);
}
bool decode_red(Decoder &d) {
  return decode(d, true);
}

const Registration registration{{"st", decode_st}, {"red", decode_red}};

}  // namespace
}  // namespace fa::emu

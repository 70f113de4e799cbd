// tcgen05.cp (PTX ISA 9.7.16.9): from shared to tensor memory. Rows of 128 or 256 bits, which a matrix descriptor lays
// out as those of a K-major operand, become lanes.
#include <cstring>
#include <vector>

#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/operand_observer.h"
#include "exec/tensor_memory.h"
#include "exec/tensor_pipe.h"

namespace fa::emu {
namespace {

using ptx::Type;

enum class Shape : uint16_t { rows128_bits256, rows128_bits128, rows64_02_13, rows64_01_23, rows32_warps4 };

uint32_t rows_of(Shape shape) {
  return shape == Shape::rows32_warps4 ? 32 : shape >= Shape::rows64_02_13 ? 64 : 128;
}

/// Lanes that a row goes to.
std::vector<uint32_t> lanes_of(Shape shape, uint32_t row) {
  switch (shape) {
    case Shape::rows64_02_13:
      return {row, row + 64};
    case Shape::rows64_01_23: {
      uint32_t first = row % 32 + row / 32 * 64;
      return {first, first + 32};
    }
    case Shape::rows32_warps4:
      return {row, row + 32, row + 64, row + 96};
    default:
      return {row};
  }
}

class TensorCopy : public TensorOperation {
 public:
  TensorCopy(Warp &warp, const Instruction &instruction, uint32_t lane, Shape shape, std::vector<Cta *> ctas,
             TensorAddress to, const MatrixDescriptor &from)
      : TensorOperation(warp, instruction, lane), shape_(shape), ctas_(std::move(ctas)), to_(to), from_(from) {
    for (Cta *cta : ctas_)
      require_columns(warp, instruction, cta->state<TensorMemory>(), to.column, 4 * chunks(), "the destination");
    if (to.lane != 0)
      fault(warp, instruction, FaultKind::illegal_address, -1,
            "the destination has lane " + std::to_string(to.lane) + ", expected 0");
  }

  void run() override {
    for (Cta *cta : ctas_)
      for (uint32_t row = 0; row < rows_of(shape_); row++)
        for (uint32_t chunk = 0; chunk < chunks(); chunk++) copy(*cta, row, chunk);
  }

  void observe(AccessKind kind, uint64_t key) const override {
    for (Cta *cta : ctas_) {
      observe_operand(warp_, instruction_, kind, cta->rank, key, {window(*cta), from_, Element::tf32, false, chunks()},
                      0, rows_of(shape_));
      observe_tensor(kind, key,
                     {AccessKind::write, cta->rank, 0, TensorMemory::lane_count, to_.column, 4 * chunks(), 0, 0});
    }
  }

 private:
  uint32_t chunks() const { return shape_ == Shape::rows128_bits256 ? 2 : 1; }

  static SharedWindow window(const Cta &cta) {
    uint32_t begin = cta.shared_base & 0xffffff;
    return {cta.shared, begin, begin + cta.shared_bytes};
  }

  void copy(Cta &cta, uint32_t row, uint32_t chunk) {
    SharedWindow shared = window(cta);
    uint32_t at = from_.row_chunk(row, chunk);
    if (at < shared.begin || at + 16 > shared.end)
      fault(warp_, instruction_, FaultKind::illegal_address, -1,
            "the descriptor leads to shared address " + std::to_string(at) + ", and the block has " +
                std::to_string(cta.shared_bytes) + " bytes from " + std::to_string(shared.begin) + " on");
    for (uint32_t lane : lanes_of(shape_, row))
      std::memcpy(cta.state<TensorMemory>().at(lane, to_.column + 4 * chunk), shared.bytes + (at - shared.begin), 16);
  }

  Shape shape_;
  std::vector<Cta *> ctas_;
  TensorAddress to_;
  MatrixDescriptor from_;
};

/// a, imm: destination. b: the descriptor. detail: the shape, and in bit 8 whether both CTAs of a pair copy.
void issue(Warp &warp, const Instruction &instruction, uint32_t mask) {
  bool pair = instruction.detail >> 8;
  std::vector<Cta *> ctas{warp.cta};
  if (pair) ctas.push_back(&peer_of(warp, instruction));
  for (Cta *cta : ctas) tensor_memory(warp, instruction, *cta, pair ? 2 : 1);
  for (uint32_t lane = 0; lane < lanes; lane++) {
    if (!(mask >> lane & 1)) continue;
    MatrixDescriptor from;
    std::string wrong = read_tcgen05_descriptor(warp.row<uint64_t>(instruction.b)[lane], from);
    if (!wrong.empty())
      fault(warp, instruction, FaultKind::illegal_instruction, static_cast<int>(lane), std::move(wrong));
    TensorAddress to(warp.row<uint32_t>(instruction.a)[lane] + static_cast<uint32_t>(instruction.imm));
    start(std::make_shared<TensorCopy>(warp, instruction, lane, static_cast<Shape>(instruction.detail & 0xff), ctas, to,
                                       from));
  }
}

bool shape_of(Decoder &d, Shape &shape) {
  if (d.has("128x256b")) return shape = Shape::rows128_bits256, true;
  if (d.has("128x128b")) return shape = Shape::rows128_bits128, true;
  if (d.has("64x128b") && d.has("warpx2::02_13")) return shape = Shape::rows64_02_13, true;
  if (d.has("64x128b") && d.has("warpx2::01_23")) return shape = Shape::rows64_01_23, true;
  if (d.has("32x128b") && d.has("warpx4")) return shape = Shape::rows32_warps4, true;
  return false;
}

bool decode(Decoder &d) {
  Shape shape;
  // Copies that unpack elements of 4 and 6 bits name two formats.
  if (!d.has("cp") || !shape_of(d, shape) || d.has("b8x16")) return false;
  d.expect_operands(2, 2);
  Decoder::Address to = d.address_of(d.operand(0));
  if (to.base != AddressBase::row32) d.fail("an address in tensor memory is a register of 32 bits");
  d.out().a = to.row;
  d.out().imm = to.displacement;
  d.out().b = d.source(1, Type::b64);
  d.out().detail = static_cast<uint16_t>(static_cast<uint16_t>(shape) | (d.has("cta_group::2") ? 0x100 : 0));
  return d.run(issue);
}

const Registration registration{{"tcgen05", decode}};

}  // namespace
}  // namespace fa::emu

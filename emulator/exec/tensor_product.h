// One tcgen05.mma on its way: its operands at the time of issue, and its product when it happens.
#pragma once

#include <array>

#include "exec/instruction_descriptor.h"
#include "exec/tensor_memory.h"
#include "exec/tensor_pipe.h"

namespace fa::emu {

class TensorProduct : public TensorOperation {
 public:
  struct Operands {
    MmaShape shape;
    int group = 1;
    bool ws = false;
    bool a_in_tensor_memory = false;
    TensorAddress d{0}, a_address{0};
    MatrixDescriptor a, b;
    bool accumulate = false;
    int scale = 0;                          // D is divided by 2^scale before
    std::array<uint32_t, 8> disabled = {};  // a bit a lane, of both CTAs of a pair: D stays as it is
  };

  /// Checks addresses and columns: a fault where they cannot be.
  TensorProduct(Warp &warp, const Instruction &instruction, uint32_t lane, const Operands &operands);
  void run() override;
  void observe(AccessKind kind, uint64_t key) const override;

 private:
  /// Part of D in one CTA: these rows of A times these columns of B are at that lane and column.
  struct Block {
    uint32_t row, rows, lane, first_column, columns;
  };
  std::vector<Block> blocks() const;
  Cta &cta(int number) const;
  OperandSource source(int number, const MatrixDescriptor &layout, Element element, bool transposed) const;
  void check_places();
  void check(const OutsideWindow &outside, char operand, const MatrixDescriptor &layout) const;
  void load_b(float *b) const;
  void load_a(int number, const Block &block, float *a) const;
  void multiply(int number, const Block &block, const float *a, const float *b);
  void sum_floats(TensorMemory &memory, const Block &block, const float *a, const float *b);
  void sum_others(TensorMemory &memory, const Block &block, const float *a, const float *b);

  Operands operands_;
};

}  // namespace fa::emu

// Every check sees the faults seeded for it, and only those: kernels of tests/mutants, run with
// FA_EMU_CHECK=2, where a violation is a fault of the kernel. Each launch has a separate process, as a fault ends the
// context.
#include <cmath>

#include "mutant.h"

namespace {

using emulated::Array;
using emulated::kernel;
using emulated::launch;
using emulated::Mutant;

class Attention : public testing::TestWithParam<Mutant> {};

TEST_P(Attention, Sm80) {
  constexpr int count = 256, width = 64;
  std::string text = emulated::reported([] {
    emulated::start();
    CUfunction attention = kernel(emulated::read_file(TEST_MUTANTS "/attention.sm_80.ptx"), "attention");
    emulated::call("cuFuncSetAttribute", attention, 8, 65536);
    std::vector<_Float16> values(count * width);
    for (size_t i = 0; i < values.size(); i++)
      values[i] = static_cast<_Float16>(std::sin(static_cast<float>(i) * 0.37f));
    Array<_Float16> q(values), k(values), v(values), o(std::vector<_Float16>(count * width));
    launch(attention, {count / 64}, {128}, 49152, q.address, k.address, v.address, o.address, count, 0.18f,
           GetParam().fault);
  });
  emulated::expect_report(text, GetParam().report);
}

const Mutant attention_mutants[] = {
    {"CleanTwin", 0, ""},
    {"NoBarrierAtTheTop", 1, "race): reads shared memory"},
    {"NoBarrierBeforeTheSecondProduct", 2, "race): reads shared memory"},
    {"NoBarrierAtTopAndEnd", 3, "race): "},
    {"Misaligned", 4, "misaligned address"},
    {"KeysWaitedForTooLate", 5, "still writes: nothing has waited for it"},
    {"ValuesWaitedForTooLate", 6, "still writes: nothing has waited for it"},
    {"HalfAWarpAtABarrier", 7, "divergence"},
    {"UninitialisedRegister", 8, "was never written"},
    {"UninitialisedSharedMemory", 9, "loads it from shared memory that nobody has written"},
    {"StagingWithoutSyncwarp", 10, "race): reads shared memory"},
    {"CopiesNobodyWaitsFor", 11, "nothing has waited for this asynchronous operation"},
    {"RowsOfTheNeighbour", 12, "race): writes global memory"},
    {"BarrierThatAWarpMisses", 13, "race): "},
    {"OutputBeyondItsAllocation", 14, "which is in no allocation"},
    {"NoBarrierAtTheEndWhichIsClean", 15, ""},
};

INSTANTIATE_TEST_SUITE_P(Mutants, Attention, testing::ValuesIn(attention_mutants), emulated::name_of);

}  // namespace

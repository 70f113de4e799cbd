// Faults seeded into the attention kernels of sm_90a and sm_100a, run with FA_EMU_CHECK=2: the report that the checks
// must make of each, or, where only the program's meaning is wrong, that its results are.
#include "mutant.h"
#include "tensor_attention.h"

namespace {

using emulated::Mutant;

void expect(const Mutant &mutant) {
  constexpr double tolerance = 2e-3;
  std::string text = emulated::reported([&] {
    double error = emulated::attention::error(TEST_MUTANTS, 128, 256, 1, mutant.fault);
    if (std::isfinite(error) && (error > tolerance) != mutant.wrong)
      std::fprintf(stderr, "the greatest difference is %g\n", error);
  });
  emulated::expect_report(text, mutant.report);
}

class Wgmma : public testing::TestWithParam<Mutant> {};
class Tcgen05 : public testing::TestWithParam<Mutant> {};

TEST_P(Wgmma, Mutant) {
  expect(GetParam());
}
TEST_P(Tcgen05, Mutant) {
  expect(GetParam());
}

const Mutant wgmma_mutants[] = {
    {"CleanTwin", 0, ""},
    {"DescriptorOfOtherRows", 1, "", true},
    {"StageGivenBackTooEarly", 2, "race): writes shared memory|still reads"},
    {"DataNotWaitedFor", 3, "still writes: nothing has waited for it"},
    {"ScoresUsedTooEarly", 4, "is in use by the wgmma of"},
    {"ProducerDoesNotWait", 5, "of which 0 of 1 are pending|still reads|race): writes"},
    {"WrongPhase", 6, "nothing has waited for it|deadlock"},
    {"TooFewBytesExpected", 7, "deadlock"},
    {"NoFenceBehindRegisters", 8, "without a wgmma.fence between"},
};

const Mutant tcgen05_mutants[] = {
    {"CleanTwin", 0, ""},
    {"ValuesNotTransposed", 1, "the descriptor of B"},
    {"ScoresReadTooEarly", 2, "still writes"},
    {"NotGivenBack", 3, "tensor memory is not given back"},
    {"NothingEndsAStep", 4, "may not have seen|deadlock"},
    {"ProductBeforeAllHaveStored", 5, "still reads|still writes|race): reads column|race): writes column"},
    {"TooFewBytesExpected", 6, "nothing has waited for it"},
    {"LanesOfAnotherQuarter", 7, "reaches lanes"},
    {"NoFenceAfterWaiting", 8, "without tcgen05.fence"},
    {"NoWaitForLoads", 9, "which no tcgen05.wait::ld has waited for"},
    {"NoWaitForStores", 10, "still writes"},
    {"NoFenceBeforeBarrier", 11, "without tcgen05.fence"},
};

INSTANTIATE_TEST_SUITE_P(Mutants, Wgmma, testing::ValuesIn(wgmma_mutants), emulated::name_of);
INSTANTIATE_TEST_SUITE_P(Mutants, Tcgen05, testing::ValuesIn(tcgen05_mutants), emulated::name_of);

}  // namespace

// A phase ends when no arrival and no transaction is missing; the next one begins at once.
#include "exec/mbarrier.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "exec/access.h"
#include "exec/cta.h"
#include "exec/fault.h"

namespace fa::emu {
namespace {

// From bit 0 on: 20 bits of pending arrivals, 20 of expected ones, 21 of transactions (biased), phase, a mark.
constexpr uint64_t count_mask = max_mbarrier_arrivals, mark = 2;
constexpr int expected_shift = 20, transaction_shift = 40, phase_shift = 61, mark_shift = 62;
constexpr int32_t bias = 1 << 20;

/// One update: reads on construction, writes on store().
class Update {
 public:
  Update(Warp &warp, const Instruction &instruction, int lane, uint32_t address)
      : warp_(warp),
        instruction_(instruction),
        lane_(lane),
        address_(address),
        at_(shared_at(warp, instruction, lane, address, 8)) {
    std::memcpy(&before, at_, sizeof before);
    if (address % 8 != 0)
      fault(warp, instruction, FaultKind::misaligned_address, lane, "an mbarrier is aligned to 8 bytes");
    if (!Mbarrier::read(before, barrier))
      refuse("there is no mbarrier at shared address " + std::to_string(address) +
             " (not initialised, invalidated or overwritten)");
  }

  void store() {
    bool complete = barrier.pending == 0 && barrier.transactions == 0;
    if (complete) {
      barrier.phase = !barrier.phase;
      barrier.pending = barrier.expected;
      if (Observer *observer = warp_.cta->cluster->observer.get())
        observer->mbarrier_ends_phase(warp_, instruction_, address_);
    }
    uint64_t bits = barrier.bits();
    std::memcpy(at_, &bits, sizeof bits);
    warp_.cta->cluster->events++;
  }

  void add_transactions(int64_t bytes) {
    int64_t sum = barrier.transactions + bytes;
    if (sum > max_mbarrier_arrivals || sum < -int64_t{max_mbarrier_arrivals})
      refuse("the mbarrier's transaction count would become " + std::to_string(sum) + ", beyond 2^20 - 1");
    barrier.transactions = static_cast<int32_t>(sum);
  }

  [[noreturn]] void refuse(const std::string &message) const {
    fault(warp_, instruction_, FaultKind::illegal_instruction, lane_, message);
  }

  Mbarrier barrier;
  uint64_t before = 0;

 private:
  Warp &warp_;
  const Instruction &instruction_;
  int lane_;
  uint32_t address_;
  uint8_t *at_;
};

}  // namespace

uint64_t Mbarrier::bits() const {
  return uint64_t{pending} | uint64_t{expected} << expected_shift |
         static_cast<uint64_t>(transactions + bias) << transaction_shift | uint64_t{phase} << phase_shift |
         mark << mark_shift;
}

bool Mbarrier::read(uint64_t bits, Mbarrier &out) {
  out.pending = static_cast<uint32_t>(bits & count_mask);
  out.expected = static_cast<uint32_t>(bits >> expected_shift & count_mask);
  out.transactions = static_cast<int32_t>(bits >> transaction_shift & 0x1fffff) - bias;
  out.phase = bits >> phase_shift & 1;
  return bits >> mark_shift == mark;
}

uint64_t mbarrier_arrive(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t count,
                         bool drop) {
  Update update(warp, instruction, lane, address);
  Mbarrier &barrier = update.barrier;
  if (count == 0 || count > barrier.pending)
    update.refuse(std::to_string(count) + " arrivals at an mbarrier of which " + std::to_string(barrier.pending) +
                  " of " + std::to_string(barrier.expected) + " are pending in this phase");
  if (drop) barrier.expected -= std::min(barrier.expected, count);
  barrier.pending -= count;
  update.store();
  return update.before;
}

void mbarrier_expect(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t bytes) {
  Update update(warp, instruction, lane, address);
  update.add_transactions(bytes);
  update.store();
}

void mbarrier_complete(Warp &warp, const Instruction &instruction, int lane, uint32_t address, uint32_t bytes) {
  Update update(warp, instruction, lane, address);
  update.add_transactions(-int64_t{bytes});
  update.store();
}

void mbarrier_add_pending(Warp &warp, const Instruction &instruction, int lane, uint32_t address) {
  Update update(warp, instruction, lane, address);
  if (update.barrier.pending == max_mbarrier_arrivals) update.refuse("too many pending arrivals at an mbarrier");
  update.barrier.pending++;
  update.store();
}

Mbarrier mbarrier_at(Warp &warp, const Instruction &instruction, int lane, uint32_t address) {
  return Update(warp, instruction, lane, address).barrier;
}

}  // namespace fa::emu

// Bulk asynchronous operations (PTX ISA 9.7.9.27): TMA. An operation reads and writes when something waits
// for it (its commit group), or else when nothing in its cluster can go on: so late that a missing wait shows.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/cta.h"
#include "exec/decoder.h"

namespace fa::emu {

class BulkOperation {
 public:
  BulkOperation(Warp &warp, const Instruction &instruction, uint32_t lane)
      : warp_(warp), instruction_(instruction), lane_(static_cast<int>(lane)) {}
  virtual ~BulkOperation() = default;

  /// Reports the coming reads and writes.
  virtual void announce() = 0;
  /// Reads the source, unless that has been done.
  void read();
  /// Reads and writes, unless that has been done.
  void finish();
  bool has_read() const { return has_read_; }
  const Instruction &instruction() const { return instruction_; }

 protected:
  virtual void gather() = 0;   // source to data_
  virtual void scatter() = 0;  // data_ to its destination; completes mbarriers

  /// Reports bytes to the observer, if there is one; key and reduces as in Access.
  void report(ptx::Space space, AccessKind kind, uint64_t address, uint32_t bytes, uint64_t key = 0,
              bool reduces = false) const;
  uint8_t *shared(uint32_t address, uint32_t bytes) const;
  uint8_t *global(uint64_t address, uint64_t bytes) const;
  /// complete_tx at the mbarrier; a CTA that has ended without waiting for its data is reported.
  void complete(uint32_t mbarrier, uint32_t bytes) const;

  Warp &warp_;
  const Instruction &instruction_;
  int lane_;
  std::vector<uint8_t> data_;

 private:
  bool has_read_ = false, has_written_ = false;
};

/// Bulk commit groups of a warp's threads.
struct BulkGroups : State {
  using Group = std::vector<std::shared_ptr<BulkOperation>>;
  std::array<Group, lanes> open;
  std::array<std::deque<Group>, lanes> committed;

  /// Operations whose source has not been read when its CTA ends read it then, and are a finding: machines keep shared
  /// memory until they have, as shipped libraries rely on (CUTLASS 70), and no document promises that.
  void at_exit(Cta &cta) override;
};

/// Puts the operation in flight; grouped: it belongs to the bulk commit group that its thread commits next.
void submit(Warp &warp, uint32_t lane, std::shared_ptr<BulkOperation> operation, bool grouped);

/// Where an operation between shared and global memory completes.
struct SharedTarget {
  uint32_t address = 0;
  uint32_t mbarrier = 0;
};

/// The destinations of an operation with .multicast::cluster: the same offsets in each CTA of the mask. pairs
/// (.cta_group::2): the signal goes to the CTA of each pair that mbarrier's own one is of its pair.
std::vector<SharedTarget> multicast(SharedTarget target, uint32_t cta_mask, bool pairs);

/// Puts an address operand that is not the instruction's own one, or 0, among its slots: a row and a displacement. True
/// if the row has 64 bits.
bool list_address(Decoder &d, std::optional<size_t> operand, std::vector<Slot> &slots);

/// The address that list_address put there.
uint64_t listed_address(const Warp &warp, const Slot *slots, bool wide, uint32_t lane);

}  // namespace fa::emu

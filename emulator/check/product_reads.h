// The reads of shared memory by the wgmma of a warpgroup, by product: the reads of all four warps end together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "check/clocks.h"
#include "check/in_flight.h"

namespace fa::emu::check {

class ProductReads {
 public:
  static constexpr uint32_t warps = 4;

  /// A warp of the group issues its next product; reached: the events before that, for it. Then, its reads.
  void issue(uint32_t warp, const KnownOfAll &reached) {
    if (issued_[warp] - first_ == products_.size()) products_.emplace_back();
    join(products_[issued_[warp]++ - first_].reached, reached);
  }
  void read(uint32_t warp, const Operation &operation) {
    products_[issued_[warp] - 1 - first_].reads.push_back(operation);
  }

  /// A warp has waited for the first `count` products. Hands over their reads, with the product's number, as far as no
  /// other warp has before; returns the events before the issue of the last of them by all four warps.
  template <class F>
  KnownOfAll wait(uint32_t warp, uint64_t count, F &&ended) {
    for (; ended_ < count; ended_++)
      for (const Operation &operation : std::exchange(products_[ended_ - first_].reads, {})) ended(operation, ended_);
    if (count <= waited_[warp]) return {};
    waited_[warp] = count;
    KnownOfAll reached = products_[count - 1 - first_].reached;
    for (uint64_t all = *std::min_element(waited_, waited_ + warps); first_ < all; first_++) products_.pop_front();
    return reached;
  }

 private:
  struct Product {
    std::vector<Operation> reads;
    KnownOfAll reached;
  };
  std::deque<Product> products_;                      // that some warp has not waited for
  uint64_t first_ = 0;                                // number of the oldest
  uint64_t issued_[warps] = {}, waited_[warps] = {};  // products, by warp
  uint64_t ended_ = 0;
};

}  // namespace fa::emu::check

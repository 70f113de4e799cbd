// fa_append of a figure, next to a memcpy of as many bytes.
#pragma once

#include <fa.h>

#include <vector>

#include "workload.h"

namespace fa::bench {

/// Writes the same new rows to one place after another, of one cache after another where the case is cold. Scales are
/// computed where codes have some.
class AppendWorkload : public Subject {
 public:
  explicit AppendWorkload(const Case &wanted);

  bool call() override { return fa_append(op_, &args_) == FA_OK; }

  /// Copies to the next place of memory that is as cold.
  double time_plain() override;

  /// None: appends are compared by bytes.
  double flops() const override { return 0; }

  /// The bytes of new rows, read and written, and of their scales and zeros.
  double moved_bytes() const override;

 private:
  /// The bytes of one head of a row of the cache: k, v, and their scales and zeros.
  int64_t stored_bytes() const;
  int64_t factors_of_a_row() const;
  void create_caches();
  void create_rotary();
  void use_next() override;

  struct Cache {
    fa_tensor k, v, k_scale = {}, v_scale = {}, k_zero = {}, v_zero = {};
  };
  std::vector<Cache> caches_;
  size_t cache_ = 0;
  int32_t place_ = 0;
  fa_append_args args_;
  const void *copied_from_ = nullptr;
  Span copied_to_ = {};
  size_t copied_ = 0;  // bytes of it that are behind
};

}  // namespace fa::bench

// The contents that the arrays of a call may have, whatever its operation: checks that name the array, the entry and
// the expectation.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa::cpu {

/// Cumulative row counts of sequences in a tensor of that many rows.
fa_status check_lengths(const char *name, const int32_t *cumulative, int64_t sequences, int64_t rows,
                        const char *tensor);

/// Entry b is 0 .. high.
fa_status check_range(const char *name, int64_t b, int64_t value, int64_t high, const char *meaning);

/// The length of sequence b is within the bound that the argument of that name gives.
fa_status check_bound(const char *name, int64_t b, int64_t length, int64_t bound);

/// An entry of args.block_table.
fa_status check_page(int64_t b, int64_t entry, int32_t page, int64_t pages, const char *tensor);

}  // namespace fa::cpu

// Checks of the contents of a call's arrays, shared by all operations. An error names the array, the entry and the
// expected values.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa::cpu {

/// Checks the cumulative row counts of sequences in a tensor of `rows` rows.
fa_status check_lengths(const char *name, const int32_t *cumulative, int64_t sequences, int64_t rows,
                        const char *tensor);

/// Checks that entry b is in 0 .. high.
fa_status check_range(const char *name, int64_t b, int64_t value, int64_t high, const char *meaning);

/// Checks that the length of sequence b is within the bound that the argument `name` gives.
fa_status check_bound(const char *name, int64_t b, int64_t length, int64_t bound);

/// Checks an entry of args.block_table.
fa_status check_page(int64_t b, int64_t entry, int32_t page, int64_t pages, const char *tensor);

}  // namespace fa::cpu

// Addresses of the rows of k and v that attention reads: in a tensor, or in a paged KV cache with a block table.
#pragma once

#include <fa.h>

#include <cstdint>

namespace fa::cpu {

/// A sequence's part of the block table: its token t is slot t % size of page entry(t / size).
struct Pages {
  const char *table = nullptr;  // int32_t entries; null when not paged
  int64_t stride = 0;           // bytes from an entry to the next
  int64_t size = 0;             // slots of a page
  int64_t first = 0;            // the token that is key 0
};

/// The keys, or the values, of one sequence and head, or of some consecutive heads. Strides are in bytes.
struct CacheRows {
  char *data = nullptr;  // key 0; paged: slot 0 of page 0
  int64_t row = 0;       // from a key to the next; paged: within a page
  int64_t element = 0;   // from an element of a row to the next
  int64_t head = 0;      // from a head to the next
  int64_t page = 0;      // from a page to the next
  fa_dtype dtype = FA_F32;
};

/// Scales or zeros: a row for each key, or value, whose codes they belong to.
struct Factors : CacheRows {
  int64_t channels = 0;  // consecutive elements of a key that have one

  explicit operator bool() const { return data != nullptr; }

  /// Whether all elements of a key have one.
  bool per_key(int64_t dim) const { return data == nullptr || channels == dim; }
};

/// The scales and zeros of quantised rows: a number is (code - zero) * scale. Absent ones are 0 and 1.
struct RowFactors {
  Factors scale, zero;
};

// Of internal linkage, as kernels are compiled for an ISA each.
namespace {

/// The entry of the table whose page has key j.
inline int64_t page_index(const Pages &pages, int64_t j) {
  return (pages.first + j) / pages.size;
}

inline int32_t page_entry(const Pages &pages, int64_t i) {
  int32_t page;
  __builtin_memcpy(&page, pages.table + i * pages.stride, sizeof page);
  return page;
}

/// The row of key j.
inline char *row_of(const CacheRows &rows, const Pages &pages, int64_t j) {
  if (pages.table == nullptr) return rows.data + j * rows.row;
  const int64_t slot = (pages.first + j) % pages.size;
  return rows.data + page_entry(pages, page_index(pages, j)) * rows.page + slot * rows.row;
}

/// True when the rows of keys j .. j + n - 1 have one stride.
inline bool evenly_spaced(const Pages &pages, int64_t j, int64_t n) {
  return pages.table == nullptr || page_index(pages, j) == page_index(pages, j + n - 1);
}

}  // namespace
}  // namespace fa::cpu

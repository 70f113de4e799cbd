#include "cpu/contents.h"

#include "core/status.h"

namespace fa::cpu {

fa_status check_lengths(const char *name, const int32_t *cumulative, int64_t sequences, int64_t rows,
                        const char *tensor) {
  if (cumulative == nullptr) return FA_OK;
  if (cumulative[0] < 0)
    return fail(FA_ERROR_INVALID_ARGUMENT, "args.%s[0] is %d: expected 0 or more", name, cumulative[0]);
  for (int64_t b = 0; b < sequences; b++)
    if (cumulative[b + 1] < cumulative[b])
      return fail(FA_ERROR_INVALID_ARGUMENT,
                  "args.%s falls from %d to %d at entry %lld: expected cumulative row counts", name, cumulative[b],
                  cumulative[b + 1], static_cast<long long>(b + 1));
  if (cumulative[sequences] > rows)
    return fail(FA_ERROR_INVALID_ARGUMENT, "args.%s ends at %d, but args.%s has only %lld rows", name,
                cumulative[sequences], tensor, static_cast<long long>(rows));
  return FA_OK;
}

fa_status check_range(const char *name, int64_t b, int64_t value, int64_t high, const char *meaning) {
  if (value >= 0 && value <= high) return FA_OK;
  return fail(FA_ERROR_INVALID_ARGUMENT, "args.%s[%lld] is %lld: expected 0 .. %lld, %s", name,
              static_cast<long long>(b), static_cast<long long>(value), static_cast<long long>(high), meaning);
}

fa_status check_bound(const char *name, int64_t b, int64_t length, int64_t bound) {
  if (length <= bound) return FA_OK;
  return fail(FA_ERROR_INVALID_ARGUMENT,
              "args.%s is %lld, but sequence %lld has %lld rows: expected at least that, or 0", name,
              static_cast<long long>(bound), static_cast<long long>(b), static_cast<long long>(length));
}

fa_status check_page(int64_t b, int64_t entry, int32_t page, int64_t pages, const char *tensor) {
  if (page >= 0 && page < pages) return FA_OK;
  return fail(FA_ERROR_INVALID_ARGUMENT, "args.block_table[%lld][%lld] is %d: expected 0 .. %lld, a page of args.%s",
              static_cast<long long>(b), static_cast<long long>(entry), page, static_cast<long long>(pages - 1),
              tensor);
}

}  // namespace fa::cpu

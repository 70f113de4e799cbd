// The struct_size protocol: support for callers that were built against an older or newer fa.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "api/refuse.h"

namespace fa::api {

/// A struct_size above this is no size of any release: the memory was never initialised.
inline constexpr size_t max_struct_size = 4096;

/// Valid values of a structure's struct_size.
template <class T>
struct StructSizeRule {
  const char *type;    // "fa_desc"
  size_t required;     // bytes that every caller has
  const char *remedy;  // how to set struct_size
};

/// Refuses a struct_size that is no sizeof(T) of any release.
template <class T>
bool check_struct_size(const StructSizeRule<T> &rule, size_t size) {
  if (size >= rule.required && size <= max_struct_size && size % alignof(T) == 0) [[likely]]
    return true;
  return refuse("%s.struct_size is %zu; expected sizeof(%s), which is %zu in libfa %s and at least %zu in any: %s",
                rule.type, size, rule.type, sizeof(T), FA_VERSION_STRING, rule.required, rule.remedy);
}

/// The caller's structure as this release knows it: *given itself where it has every field, else *storage, which
/// becomes the defaults overlaid with the fields that the caller has. nullptr after a refusal.
template <class T>
const T *upgrade_struct(const StructSizeRule<T> &rule, const T *given, const T &defaults, T *storage) {
  const size_t size = given->struct_size;
  if (!check_struct_size(rule, size)) return nullptr;
  if (size == sizeof(T)) [[likely]]
    return given;
  if (size < sizeof(T)) {
    *storage = defaults;
    std::memcpy(storage, given, size);
    return storage;
  }
  const char *bytes = reinterpret_cast<const char *>(given);
  const char *unknown = std::find_if(bytes + sizeof(T), bytes + size, [](char byte) { return byte != 0; });
  if (unknown == bytes + size) return given;
  refuse(
      "%s.struct_size is %zu, and byte %td is not zero, but libfa %s knows only the first %zu bytes: leave newer "
      "fields zero, or load a newer libfa",
      rule.type, size, unknown - bytes, FA_VERSION_STRING, sizeof(T));
  return nullptr;
}

/// Fills a caller's structure of size bytes with value, as far as it reaches, and with zero where a newer one goes on.
/// struct_size becomes size. Does nothing where there is no room for that.
template <class T>
void initialise(T *given, size_t size, const T &value) {
  if (!given || size < sizeof given->struct_size) return;
  const size_t known = std::min(size, sizeof(T));
  std::memcpy(static_cast<void *>(given), &value, known);
  std::memset(reinterpret_cast<char *>(given) + known, 0, size - known);
  given->struct_size = size;
}

}  // namespace fa::api

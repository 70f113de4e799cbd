// The texts of refusals, out of the way of the calls that succeed.
#include "api/refuse.h"

#include <cstdarg>
#include <cstdio>

#include "core/dtype.h"
#include "core/status.h"

namespace fa::api {
namespace {

struct DtypeText {
  char text[160];

  explicit DtypeText(fa_dtype dtype) {
    const char *name = dtype_name(dtype);
    std::snprintf(text, sizeof text, "%d%s%s%s", dtype, name ? " (" : ", which is not an fa_dtype", name ? name : "",
                  name ? ")" : "");
  }

  explicit DtypeText(DtypeSet set) {
    size_t length = 0;
    text[0] = '\0';
    for (fa_dtype dtype = 0; set >> dtype != 0; ++dtype) {
      if (!(set & only(dtype))) continue;
      const char *separator = length == 0 ? "" : set >> (dtype + 1) == 0 ? " or " : ", ";
      length += std::snprintf(text + length, sizeof text - length, "%s%s", separator, dtype_name(dtype));
    }
  }
};

}  // namespace

bool refuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_with(FA_ERROR_INVALID_ARGUMENT, format, arguments);
  va_end(arguments);
  return false;
}

bool refuse_dtype(const char *owner, const char *member, fa_dtype given, DtypeSet legal, const char *why) {
  return refuse("%s.%s is %s; expected %s%s%s%s", owner, member, DtypeText(given).text, DtypeText(legal).text,
                *why ? " (" : "", why, *why ? ")" : "");
}

}  // namespace fa::api

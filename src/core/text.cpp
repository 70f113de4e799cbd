#include "core/text.h"

#include <locale.h>

#include <cstdio>

namespace fa {

void print_text(char *text, size_t bytes, const char *format, va_list arguments) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);  // a constant of the C library
  const locale_t before = c_locale != nullptr ? uselocale(c_locale) : nullptr;
  std::vsnprintf(text, bytes, format, arguments);
  if (c_locale != nullptr) uselocale(before);
}

}  // namespace fa

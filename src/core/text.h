// Texts of messages, printf-like, which are the same in every locale.
#pragma once

#include <cstdarg>
#include <cstddef>

namespace fa {

/// vsnprintf with the C locale's numbers. Allocates nothing.
[[gnu::format(printf, 3, 0)]] void print_text(char *text, size_t bytes, const char *format, va_list arguments);

}  // namespace fa

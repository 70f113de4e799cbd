// The calling thread's last error: a status and a text in a fixed buffer, so that it works out of memory.
#pragma once

#include <fa.h>

namespace fa {

/// Describes an error of the calling thread, printf-like, and returns status. Texts name the argument, what was got,
/// what was expected and what would work; longer ones than the buffer are cut.
[[gnu::format(printf, 2, 3)]] fa_status fail(fa_status status, const char *format, ...);

/// The calling thread's last text, "" when there was none.
const char *last_error();

}  // namespace fa

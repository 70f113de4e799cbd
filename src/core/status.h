// The calling thread's last error: a status and a text in a fixed buffer, so that it works out of memory.
#pragma once

#include <fa.h>

#include <cstdarg>

namespace fa {

struct Error {
  fa_status status;
  char text[1024];
};

/// Describes an error of the calling thread, printf-like, and returns status. Texts name the argument, what was got,
/// what was expected and what would work; longer ones than the buffer are cut.
[[gnu::format(printf, 2, 3)]] fa_status fail(fa_status status, const char *format, ...);

/// The same with the arguments as a va_list.
[[gnu::format(printf, 2, 0)]] fa_status fail_with(fa_status status, const char *format, va_list arguments);

/// The status of the calling thread's last error, FA_OK when there was none.
fa_status last_status();

/// The calling thread's last text, "" when there was none.
const char *last_error();

/// Puts the calling thread's last error back when it ends: around what may fail without its caller's failing.
class KeepError {
 public:
  KeepError();
  ~KeepError();
  KeepError(const KeepError &) = delete;
  KeepError &operator=(const KeepError &) = delete;

 private:
  Error kept_;
};

}  // namespace fa

// The calling thread's last error: a status and a text in a fixed buffer, so that it works out of memory.
#pragma once

#include <fa.h>

#include <cstdarg>

namespace fa {

struct Error {
  fa_status status;
  char text[1024];
};

/// Records an error of the calling thread, printf-like, and returns status. A text names the argument, its value, the
/// expected one and a remedy; the buffer truncates longer texts.
[[gnu::format(printf, 2, 3)]] fa_status fail(fa_status status, const char *format, ...);

/// The same with the arguments as a va_list.
[[gnu::format(printf, 2, 0)]] fa_status fail_with(fa_status status, const char *format, va_list arguments);

/// The status of the calling thread's last error, FA_OK when there was none.
fa_status last_status();

/// The text of the calling thread's last error, "" when there was none.
const char *last_error();

/// Restores the calling thread's last error at the end of the scope: for code whose failure is not the call's.
class ErrorScope {
 public:
  ErrorScope();
  ~ErrorScope();
  ErrorScope(const ErrorScope &) = delete;
  ErrorScope &operator=(const ErrorScope &) = delete;

 private:
  Error kept_;
};

}  // namespace fa

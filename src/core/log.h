// Log messages: to the standard error, or to the callback of fa_set_log.
#pragma once

#include <fa.h>

namespace fa {

struct CallerState;

/// True when FA_VERBOSE enables messages on the choice of kernels: any value except those that mean no.
bool verbose_dispatch();

/// Logs one line, printf-like, without its newline.
[[gnu::format(printf, 1, 2)]] void log_message(const char *format, ...);

/// While this exists, the calling thread's messages reach the callback in the thread's state on entry.
class LogScope {
 public:
  explicit LogScope(CallerState &caller);
  ~LogScope();
  LogScope(const LogScope &) = delete;
  LogScope &operator=(const LogScope &) = delete;

 private:
  bool has_callback_;
  CallerState *before_ = nullptr;
};

/// fa_set_log.
void set_log(fa_log log, void *user);

}  // namespace fa

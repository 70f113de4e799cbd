// Messages for the person at the keyboard: to the standard error, or to the callback of fa_set_log.
#pragma once

#include <fa.h>

namespace fa {

struct HostState;

/// True when FA_VERBOSE asks for messages on how kernels are chosen: any value but those that mean no.
bool verbose_dispatch();

/// Sends one line, printf-like, without its newline.
[[gnu::format(printf, 1, 2)]] void say(const char *format, ...);

/// While this lives, the calling thread's messages go to the host's callback in the state that the thread came in with.
class LogFrom {
 public:
  explicit LogFrom(HostState &host);
  ~LogFrom();
  LogFrom(const LogFrom &) = delete;
  LogFrom &operator=(const LogFrom &) = delete;

 private:
  bool heard_;
  HostState *before_ = nullptr;
};

/// fa_set_log.
void set_log(fa_log log, void *user);

}  // namespace fa

// One line a message, formatted on the stack, to the application's callback or to the standard error.
#include "core/log.h"

#include <strings.h>

#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <utility>

#include "core/environment.h"
#include "core/text.h"
#include "core/thread_state.h"

namespace fa {
namespace {

struct Sink {
  fa_log log;
  void *user;
};

Sink sink = {nullptr, nullptr};

/// Accessed only where there is a callback: a thread's first access allocates memory if the library was loaded by
/// dlopen.
constinit thread_local CallerState *caller_state = nullptr;

}  // namespace

bool verbose_dispatch() {
  const char *wanted = environment("FA_VERBOSE");
  if (!wanted) return false;
  for (const char *off : {"0", "off", "no", "false", "none"}) {
    if (strcasecmp(wanted, off) == 0) return false;
  }
  return true;
}

void log_message(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  print_text(text, sizeof text, format, arguments);
  va_end(arguments);
  if (sink.log && caller_state) {
    in_caller_state(*caller_state, [&] { sink.log(sink.user, text); });
  } else if (sink.log) {
    sink.log(sink.user, text);
  } else {
    std::fprintf(stderr, "fa: %s\n", text);
  }
}

LogScope::LogScope(CallerState &caller) : has_callback_(sink.log != nullptr) {
  if (has_callback_) before_ = std::exchange(caller_state, &caller);
}

LogScope::~LogScope() {
  if (has_callback_) caller_state = before_;
}

void set_log(fa_log log, void *user) {
  sink = {log, user};
}

}  // namespace fa

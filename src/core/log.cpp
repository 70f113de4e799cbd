// One line a message, formatted on the stack, to the host's callback or to the standard error.
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

/// Touched only where there is a callback: the first touch of a thread allocates where the library was loaded late.
constinit thread_local HostState *speaker = nullptr;

}  // namespace

bool verbose_dispatch() {
  const char *wanted = environment("FA_VERBOSE");
  if (!wanted) return false;
  for (const char *off : {"0", "off", "no", "false", "none"}) {
    if (strcasecmp(wanted, off) == 0) return false;
  }
  return true;
}

void say(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  print_text(text, sizeof text, format, arguments);
  va_end(arguments);
  if (sink.log && speaker) {
    in_hosts_state(*speaker, [&] { sink.log(sink.user, text); });
  } else if (sink.log) {
    sink.log(sink.user, text);
  } else {
    std::fprintf(stderr, "fa: %s\n", text);
  }
}

LogFrom::LogFrom(HostState &host) : heard_(sink.log != nullptr) {
  if (heard_) before_ = std::exchange(speaker, &host);
}

LogFrom::~LogFrom() {
  if (heard_) speaker = before_;
}

void set_log(fa_log log, void *user) {
  sink = {log, user};
}

}  // namespace fa

// One line a message, formatted on the stack, to the host's callback or to the standard error.
#include "core/log.h"

#include <strings.h>

#include <cstdarg>
#include <cstdio>
#include <initializer_list>

#include "core/environment.h"

namespace fa {
namespace {

struct Sink {
  fa_log log;
  void *user;
};

Sink sink = {nullptr, nullptr};

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
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (sink.log) {
    sink.log(sink.user, text);
  } else {
    std::fprintf(stderr, "fa: %s\n", text);
  }
}

void set_log(fa_log log, void *user) {
  sink = {log, user};
}

}  // namespace fa

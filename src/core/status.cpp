// The thread's last error lives in thread-local storage of fixed size: describing an error never allocates.
#include "core/status.h"

#include "core/text.h"

namespace fa {
namespace {

constinit thread_local Error error = {FA_OK, ""};

}  // namespace

fa_status fail_with(fa_status status, const char *format, va_list arguments) {
  error.status = status;
  print_text(error.text, sizeof error.text, format, arguments);
  return status;
}

fa_status fail(fa_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_with(status, format, arguments);
  va_end(arguments);
  return status;
}

fa_status last_status() {
  return error.status;
}

const char *last_error() {
  return error.text;
}

ErrorScope::ErrorScope() : kept_(error) {}

ErrorScope::~ErrorScope() {
  error = kept_;
}

}  // namespace fa

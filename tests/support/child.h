// A separate process for work that a process does once: loading the driver, with the emulator's settings as a test
// wants them, and loading images.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace test {

using Variables = std::initializer_list<std::pair<const char *, const char *>>;

/// The result of body() in a child with these variables of the environment; 100 + the signal's number if it dies of
/// one. The caller has not done the work that a process does once.
template <class Body>
int in_child(Variables variables, Body body) {
  std::fflush(stdout);  // or the child would say it again
  const pid_t child = fork();
  if (child == 0) {
    for (const auto &[name, value] : variables) setenv(name, value, 1);
    const int result = body();
#ifdef TEST_COVERAGE
    std::exit(result);  // which notes the lines that ran
#endif
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

}  // namespace test

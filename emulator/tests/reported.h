// The emulator's report on a run that may end its process or its context.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace emulated {

/// The emulator's output to stderr while f runs in a separate process.
template <class F>
std::string reported(F f) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    try {
      f();
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::_Exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) text += "the process ended with " + std::to_string(status);
  return text;
}

/// Whether the text has one of these parts, which '|' separates: schedules differ in the fault that comes first.
inline bool mentions(const std::string &text, const std::string &parts) {
  for (size_t at = 0, end; at <= parts.size(); at = end + 1) {
    end = std::min(parts.find('|', at), parts.size());
    if (text.find(parts.substr(at, end - at)) != std::string::npos) return true;
  }
  return false;
}

}  // namespace emulated

// A checked program that ends like any other: its report and its status.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client.h"
#include "reported.h"

namespace emulated {

struct Ending {
  std::string report;
  int status;  // as a shell shows it
};

/// Runs the kernel _Z8unrolledPji in a separate process, which ends like any other.
inline Ending run(const std::string &ptx, int fault,
                  const std::vector<std::pair<const char *, std::string>> &variables = {}, int launches = 1,
                  unsigned blocks = 1) {
  int status_of[2];
  if (pipe(status_of) != 0) return {"no pipe", -1};
  std::string report = reported([&] {
    pid_t child = fork();
    if (child == 0) {
      setenv("FA_EMU_CHECK", "1", 1);
      setenv("FA_EMU_FAIL_ON", "error", 1);
      for (const auto &[name, value] : variables) setenv(name, value.c_str(), 1);
      start();
      Array<unsigned> words(std::vector<unsigned>(128));
      CUfunction function = kernel(ptx, "_Z8unrolledPji");
      for (int i = 0; i < launches; i++) launch(function, {blocks}, {128}, 0, words.address, fault);
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (write(status_of[1], &status, sizeof status) < 0) std::fputs("no status\n", stderr);
  });
  int status = -1;
  if (read(status_of[0], &status, sizeof status) < 0) report += "no status";
  close(status_of[0]);
  close(status_of[1]);
  return {report, status};
}

inline size_t count(const std::string &in, const std::string &part) {
  size_t result = 0;
  for (size_t at = 0; (at = in.find(part, at)) != std::string::npos; at += part.size()) result++;
  return result;
}

}  // namespace emulated

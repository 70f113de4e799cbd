// Starts the program by fork and exec; its output goes to files that have no name, so that no pipe can fill up.
#include "program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace test {
namespace {

int unnamed_file() {
  char name[] = "/tmp/fa_output_XXXXXX";
  const int descriptor = mkstemp(name);
  if (descriptor < 0) throw std::runtime_error("no temporary file");
  unlink(name);
  return descriptor;
}

std::string contents(int descriptor) {
  std::string text;
  char block[4096];
  lseek(descriptor, 0, SEEK_SET);
  for (ssize_t n; (n = read(descriptor, block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(n));
  return text;
}

}  // namespace

Program::Program(const std::vector<std::string> &arguments, const std::map<std::string, std::string> &variables)
    : out_(unnamed_file()), err_(unnamed_file()) {
  std::vector<char *> argv = {const_cast<char *>(TEST_FA)};
  for (const std::string &argument : arguments) argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  id_ = fork();
  if (id_ != 0) return;
  dup2(out_, STDOUT_FILENO);
  dup2(err_, STDERR_FILENO);
  for (const auto &[name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execv(TEST_FA, argv.data());
  _exit(127);
}

Program::~Program() {
  if (!waited_ && id_ > 0) {
    kill(id_, SIGKILL);
    waitpid(id_, &status_, 0);
  }
  close(out_);
  close(err_);
}

bool Program::running() {
  if (!waited_ && waitpid(id_, &status_, WNOHANG) == id_) waited_ = true;
  return !waited_;
}

Finished Program::wait() {
  if (!waited_) waitpid(id_, &status_, 0);
  waited_ = true;
  Finished finished;
  if (WIFEXITED(status_)) finished.code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) finished.signal = WTERMSIG(status_);
  finished.out = contents(out_);
  finished.err = contents(err_);
  return finished;
}

Finished fa(const std::vector<std::string> &arguments, const std::map<std::string, std::string> &variables) {
  Program program(arguments, variables);
  return program.wait();
}

}  // namespace test

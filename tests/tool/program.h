// Runs the program `fa` as a person does, and keeps its output.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace test {

struct Finished {
  int code = -1;    // the exit code, -1 when a signal ended it
  int signal = 0;   // that ended it
  std::string out;  // its standard output
  std::string err;
};

/// A program under way.
class Program {
 public:
  /// Starts fa with these arguments and, on top of this process's environment, these variables.
  explicit Program(const std::vector<std::string> &arguments, const std::map<std::string, std::string> &variables = {});
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  pid_t id() const { return id_; }
  bool running();
  Finished wait();

 private:
  pid_t id_;
  int out_, err_;  // files without a name
  bool waited_ = false;
  int status_ = 0;
};

/// Runs it to its end.
Finished fa(const std::vector<std::string> &arguments, const std::map<std::string, std::string> &variables = {});

}  // namespace test

// Finds in a command line the command to run.
#pragma once

#include <functional>
#include <string>

namespace fa::tool {

/// The command of a command line.
struct Asked {
  std::string command;        // "run"; "" when all has been printed
  std::function<int()> work;  // of that command
  int code = 0;               // the exit code when there is no work: help, the version, or wrong usage
};

Asked parse_command_line(int argc, char **argv);

}  // namespace fa::tool

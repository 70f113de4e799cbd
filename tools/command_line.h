// From the words of a command line to the command to run.
#pragma once

#include <functional>
#include <string>

namespace fa::tool {

/// The command to run, or the exit code where there is none.
struct ParsedCommand {
  std::string command;        // "run"; "" when all has been printed
  std::function<int()> work;  // of that command
  int code = 0;               // the exit code when there is no work: help, the version, or wrong usage
};

ParsedCommand parse_command_line(int argc, char **argv);

}  // namespace fa::tool

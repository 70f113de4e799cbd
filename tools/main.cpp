// The program `fa`: runs the command that is asked for, and turns what went wrong into a message and an exit code.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "command_line.h"
#include "error.h"

namespace fa::tool {
namespace {

/// Does a command's work; its exit code, whatever happens.
int run(const Asked &asked) {
  try {
    const int code = asked.work();
    if (std::fflush(stdout) != 0) failure("the standard output cannot be written");
    return code;
  } catch (const BadInput &error) {
    fmt::print(stderr, "fa {}: {}\n", asked.command, error.what());
    return exit_bad_input;
  } catch (const std::bad_alloc &) {
    fmt::print(stderr, "fa {}: out of memory\n", asked.command);
  } catch (const std::exception &error) {
    fmt::print(stderr, "fa {}: {}\n", asked.command, error.what());
  }
  return exit_failure;
}

}  // namespace
}  // namespace fa::tool

int main(int argc, char **argv) {
  try {
    const fa::tool::Asked asked = fa::tool::parse_command_line(argc, argv);
    return asked.work ? fa::tool::run(asked) : asked.code;
  } catch (...) {  // memory too short even for the options
    std::fputs("fa: out of memory\n", stderr);
    return fa::tool::exit_failure;
  }
}

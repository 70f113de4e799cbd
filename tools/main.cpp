// The program `fa`: runs a command, and turns an error into a message and an exit code.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "command_line.h"
#include "error.h"
#include "text.h"

namespace fa::tool {
namespace {

void print_error(const ParsedCommand &parsed, const std::string &what) {
  std::fflush(stdout);  // where both streams are one, the error comes last
  fmt::print(stderr, "fa{}{}: {}\n", parsed.command.empty() ? "" : " ", parsed.command, what);
}

/// Does a command's work, if any is left; the exit code, whatever happens.
int run(const ParsedCommand &parsed) {
  try {
    const int code = parsed.work ? parsed.work() : parsed.code;
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());
    return code;
  } catch (const BadInput &error) {
    print_error(parsed, printable(error.what()));
    return exit_bad_input;
  } catch (const std::bad_alloc &) {
    print_error(parsed, "out of memory");
  } catch (const std::system_error &error) {  // of fmt, too, where a command's text is longer than the stream's buffer
    print_error(parsed, std::ferror(stdout) == 0
                            ? printable(error.what(), true)
                            : fmt::format("the standard output cannot be written: {}", error.code().message()));
  } catch (const std::exception &error) {
    print_error(parsed, printable(error.what(), true));
  }
  return exit_failure;
}

}  // namespace
}  // namespace fa::tool

int main(int argc, char **argv) {
  try {
    return fa::tool::run(fa::tool::parse_command_line(argc, argv));
  } catch (...) {  // memory too short even for the options
    std::fputs("fa: out of memory\n", stderr);
    return fa::tool::exit_failure;
  }
}

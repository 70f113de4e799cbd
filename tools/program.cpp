// The program as a whole: its own help text, and the list of its commands.
#include <fa.h>

#include "command.h"

namespace fa::tool {

std::vector<Command> commands() {
  return {info_command(),    run_command(),   append_command(), draw_command(),
          explain_command(), check_command(), bench_command()};
}

Command program() {
  Command command{};
  command.name = "";
  command.summary = "compute, check and measure fused attention on this machine";
  command.usage = "COMMAND [options]";
  command.details =
      "fa is the command line of libfa, which computes exact attention without storing the scores. It shows what the "
      "library can run on a machine, computes attention on arrays in .npy files, appends to caches in such files, "
      "draws masks, explains the choice of a kernel, verifies an installation, and measures its speed.";
  command.examples = {{"This machine and its kernels, as text for a bug report:", "fa info"},
                      {"Check that every kernel that this machine can run is right:", "fa check"},
                      {"Causal attention on arrays that numpy.save wrote:",
                       "fa run --q q.npy --k k.npy --v v.npy -o out.npy --causal"}};
  command.define = [](Options &options) -> std::function<int()> {
    options.help("print this; after a command: its options");
    options.version("fa " FA_VERSION_STRING, "print the version");
    return [] { return 0; };
  };
  return command;
}

}  // namespace fa::tool

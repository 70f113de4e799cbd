// The backward pass of `fa run`: from the gradient of the output to those of q, k and v.
#pragma once

#include <fa.h>

#include <memory>
#include <string>
#include <vector>

#include "file.h"
#include "library.h"
#include "run_call.h"

namespace fa::tool {

/// Throws BadInput for options of the backward pass that make no sense together.
void check_gradient_usage(const RunOptions &options);

/// Those that --dq, --dk and --dv ask for.
class RunGradients {
 public:
  /// Reads --dout and creates the files, so that a place that cannot be written is found early.
  RunGradients(const RunOptions &options, RunCall *call);

  /// fa_backward, after call's fa_forward, whose results have been fetched where that ran on a GPU; repeat: as
  /// time_calls().
  void run(const Op &op, const RunCall &call, int64_t repeat);

  /// Writes the files and prints what they hold; a line each.
  void write();

 private:
  struct Output {
    const char *name;
    std::string path;
    Array array;
    fa_tensor *tensor;
    std::unique_ptr<OutputFile> file;
  };

  Array dout_;
  fa_backward_args args_;
  std::vector<Output> outputs_;
};

}  // namespace fa::tool

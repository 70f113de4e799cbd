// The backward pass of `fa run`: from the gradient of the output to those of q, k and v.
#pragma once

#include <fa.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "file.h"
#include "library.h"
#include "run_call.h"
#include "run_reference.h"

namespace fa::tool {

/// Throws BadInput for options of the backward pass that make no sense together.
void check_gradient_usage(const RunOptions &options);

/// The gradients of a run that have a file or a reference.
class RunGradients {
 public:
  /// Reads the inputs and creates the files, so that a place that cannot be written is found early.
  RunGradients(const RunOptions &options, RunCall *call);

  /// fa_backward, after call's fa_forward, whose results have been fetched where that ran on a GPU; repeat: as
  /// time_calls().
  void run(const Op &op, const RunCall &call, int64_t repeat);

  /// Writes the files and prints their contents; a line each.
  void write();

  /// Prints how far the gradients are from their references; false where one is farther than max_error allows.
  bool agree(double max_error) const;

 private:
  struct Output {
    const char *name;
    std::string path;
    Array array;
    std::unique_ptr<OutputFile> file;  // none where only a reference is given
    std::optional<Reference> reference;
  };

  void read_inputs(const RunOptions &options, const RunCall &call);

  Array dout_, dlse_;
  fa_backward_args args_;
  std::vector<Output> outputs_;
};

}  // namespace fa::tool

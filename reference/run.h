// Runs a case on a kernel and judges it: the one way in which every suite calls the library.
#pragma once

#include <fa.h>

#include <string>

#include "reference/backward.h"
#include "reference/case.h"
#include "reference/compare.h"
#include "reference/instance.h"

namespace reference {

/// An op of an instance on a forced kernel, or on the best one of a GPU architecture ("sm_80") or of the GPU
/// ("cuda"); destroyed with it. fenv: the floating-point environment that it is created in.
class Op {
 public:
  Op(const fa_desc &desc, const std::string &kernel, const std::string &fenv = "");
  ~Op() { fa_destroy(op_); }
  Op(const Op &) = delete;
  Op &operator=(const Op &) = delete;

  fa_status status() const { return status_; }
  fa_op *get() const { return op_; }
  explicit operator bool() const { return status_ == FA_OK; }

 private:
  fa_op *op_ = nullptr;
  fa_status status_;
};

/// fa_forward, and waiting for the GPU, with a workspace of the caller's between guard pages when the case says so.
/// fill: the bytes of the workspace before. A call that changes its caller's floating-point environment or errno fails.
fa_status forward(const Op &op, const Instance &instance, int fill = 0xff);

/// fa_backward in the same way.
fa_status backward(const Op &op, const BackwardInstance &instance, int fill = 0xff);

/// Calls of any arguments, in no workspace.
fa_status forward(const Op &op, const fa_forward_args &args);
fa_status merge(const Op &op, const fa_merge_args &args);

/// Creates, runs and checks a case, forward or backward, with its tensors flush against either guard page: "" when all
/// is right, else the failure and the line that repeats it.
std::string failure_of(const Case &c, const std::string &kernel, Errors *errors = nullptr);

/// The line that repeats a case.
std::string repeat_line(const Case &c, const std::string &kernel);

/// From now on, a crash of the process prints the line that repeats the case that was being run.
void explain_crashes();

/// "" when two calls gave the same bits, else where they first differ and how to repeat the second.
std::string same_outputs(const Instance &a, const Instance &b, const std::string &kernel);
std::string same_gradients(const BackwardInstance &a, const BackwardInstance &b, const std::string &kernel);

}  // namespace reference

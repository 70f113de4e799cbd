// One call of a node's kernel: its tensors, ONNX Runtime's threads, and memory that is kept from call to call.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fa.hpp>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ort.h"
#include "plugin/memory.h"
#include "plugin/op_cache.h"

namespace fa_ort {

// An input that the node cannot have: its name, the value, and the expected one.
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A tensor of ONNX Runtime: contiguous, last dimension fastest.
struct Tensor {
  void *data = nullptr;
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  std::vector<int64_t> shape;
  bool present = false;

  explicit operator bool() const { return present; }
  int64_t elements() const;
  fa_dtype dtype() const;  // FA_DTYPE_DEFAULT where libfa has none
  template <class T>
  const T *as() const {
    return static_cast<const T *>(data);
  }
};

fa_dtype dtype_of(ONNXTensorElementDataType type);
int64_t bytes_of(fa_dtype dtype);
std::string text_of(const std::vector<int64_t> &shape);

// Throws BadInput where the tensor's shape differs; -1 is any length.
void expect_shape(const char *name, const Tensor &tensor, const std::vector<int64_t> &expected);

// Memory of one call, kept for the next one. Never cleared; aligned for any use by libfa.
class Scratch {
 public:
  void begin() { used_ = 0; }
  void *take(size_t bytes);
  template <class T>
  T *take_array(int64_t count) {
    return static_cast<T *>(take(size_t(count) * sizeof(T)));
  }

 private:
  std::vector<fa_plugin::Memory> blocks_;
  size_t used_ = 0;
};

// Ops of one kernel: all have the kernel's attributes, and differ in the properties of tensors alone. Scratch of its
// calls: those that run at once have one each.
class Resources {
 public:
  std::shared_ptr<const fa::Op> op(const fa_desc &desc) { return ops_.op(desc); }
  std::unique_ptr<Scratch> acquire();
  void release(std::unique_ptr<Scratch> scratch);

 private:
  fa_plugin::OpCache ops_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> scratch_;
};

class Call {
 public:
  Call(OrtKernelContext *context, Resources *resources);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  Tensor input(size_t i) const;
  // An output of the node; absent where nothing reads it.
  Tensor output(size_t i, const std::vector<int64_t> &shape) const;
  Scratch &scratch() { return *scratch_; }

  void append(const fa_desc &desc, const fa_append_args &args);
  void forward(const fa_desc &desc, fa::ForwardArgs args);

  // The calls of parts, each on one thread: each(task) calls task(i, ...) of every part, on any threads.
  template <class Each>
  void forward_parts(fa::Desc desc, const std::vector<fa::ForwardArgs> &parts, const Each &each) {
    desc.num_threads = 1;
    desc.parallel_for = nullptr;
    const auto op = resources_->op(desc);
    size_t bytes = 0;
    for (const fa::ForwardArgs &args : parts) bytes = std::max(bytes, op->workspace_size(args));
    std::mutex mutex;
    std::vector<void *> workspaces;  // that no part uses now: as many are made as parts run at once
    std::exception_ptr failed;       // none may leave a thread of ONNX Runtime
    each([&](int64_t i, auto...) {
      try {
        fa::ForwardArgs args = parts[i];
        args.workspace_size = bytes;
        {
          const std::lock_guard lock(mutex);
          if (workspaces.empty()) workspaces.push_back(scratch_->take(bytes));
          args.workspace = workspaces.back();
          workspaces.pop_back();
        }
        (*op)(args);
        const std::lock_guard lock(mutex);
        workspaces.push_back(args.workspace);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = std::current_exception();
      }
    });
    if (failed) std::rethrow_exception(failed);
  }

  // task(i) of each i, 0 .. count - 1, on ONNX Runtime's threads.
  template <class Task>
  void parallel(int64_t count, const Task &task) const {
    run_parallel(
        count, [](void *t, size_t i) { (*static_cast<const Task *>(t))(int64_t(i)); }, const_cast<Task *>(&task));
  }

 private:
  void run_parallel(int64_t count, void (*task)(void *, size_t), void *context) const;

  OrtKernelContext *context_;
  Resources *resources_;
  std::unique_ptr<Scratch> scratch_;
  size_t inputs_ = 0, outputs_ = 0;
};

// A description for a kernel on the CPU, on ONNX Runtime's threads.
fa::Desc describe();

}  // namespace fa_ort

#include "call.h"

#include "host.h"
#include "node.h"

namespace fa_ort {
namespace {

// The call that is under way on this thread. fa_forward calls parallel_for on the thread that called it.
thread_local const OrtKernelContext *current = nullptr;

struct Work {
  fa_task task;
  void *context;
};

void on_threads_of_session(void *, fa_task task, void *context, int64_t count) {
  Work work = {task, context};
  OrtStatus *status = host().KernelContext_ParallelFor(
      current, [](void *w, size_t i) { static_cast<Work *>(w)->task(static_cast<Work *>(w)->context, int64_t(i)); },
      size_t(count), 0, &work);
  if (!status) return;
  host().ReleaseStatus(status);  // arguments were refused, and nothing ran
  for (int64_t i = 0; i < count; ++i) task(context, i);
}

}  // namespace

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (const int64_t length : shape) count *= length;
  return count;
}

fa_dtype Tensor::dtype() const {
  return dtype_of(type);
}

fa_dtype dtype_of(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return FA_F32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      return FA_F16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
      return FA_BF16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return FA_BOOL;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return FA_I32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return FA_I64;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
      return FA_I8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return FA_U4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN:
      return FA_E4M3;
    default:
      return FA_DTYPE_DEFAULT;
  }
}

int64_t bytes_of(fa_dtype dtype) {
  switch (dtype) {
    case FA_F32:
    case FA_I32:
      return 4;
    case FA_F16:
    case FA_BF16:
      return 2;
    case FA_I64:
      return 8;
    default:
      return 1;
  }
}

std::string text_of(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + (shape[i] < 0 ? std::string("any") : std::to_string(shape[i]));
  }
  return text + ")";
}

void expect_shape(const char *name, const Tensor &tensor, const std::vector<int64_t> &expected) {
  bool same = tensor.shape.size() == expected.size();
  for (size_t i = 0; same && i < expected.size(); ++i) same = expected[i] < 0 || expected[i] == tensor.shape[i];
  if (!same) {
    throw BadInput(std::string(name) + " has shape " + text_of(tensor.shape) + "; expected " + text_of(expected));
  }
}

// ---- Scratch, Resources

void *Scratch::take(size_t bytes) {
  if (used_ == blocks_.size()) blocks_.emplace_back();
  return blocks_[used_++].at_least(bytes);
}

std::unique_ptr<Scratch> Resources::acquire() {
  const std::lock_guard lock(mutex_);
  if (scratch_.empty()) return std::make_unique<Scratch>();
  std::unique_ptr<Scratch> scratch = std::move(scratch_.back());
  scratch_.pop_back();
  return scratch;
}

void Resources::release(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard lock(mutex_);
  scratch_.push_back(std::move(scratch));
}

// ---- Call

Call::Call(OrtKernelContext *context, Resources *resources) : context_(context), resources_(resources) {
  check(host().KernelContext_GetInputCount(context, &inputs_));
  check(host().KernelContext_GetOutputCount(context, &outputs_));
  scratch_ = resources->acquire();
  scratch_->begin();
  current = context;
}

Call::~Call() {
  current = nullptr;
  resources_->release(std::move(scratch_));
}

Tensor Call::input(size_t i) const {
  Tensor tensor;
  if (i >= inputs_) return tensor;
  const OrtValue *value = nullptr;
  check(host().KernelContext_GetInput(context_, i, &value));
  if (!value) return tensor;
  const int64_t *shape = nullptr;
  size_t rank = 0;
  check(host().GetTensorElementTypeAndShapeDataReference(value, &tensor.type, &shape, &rank));
  tensor.shape.assign(shape, shape + rank);
  const void *data = nullptr;
  check(host().GetTensorData(value, &data));
  tensor.data = const_cast<void *>(data);
  tensor.present = true;
  return tensor;
}

Tensor Call::output(size_t i, const std::vector<int64_t> &shape) const {
  Tensor tensor;
  if (i >= outputs_) return tensor;
  OrtValue *value = nullptr;
  check(host().KernelContext_GetOutput(context_, i, shape.data(), shape.size(), &value));
  if (!value) return tensor;
  const int64_t *made = nullptr;
  size_t rank = 0;
  check(host().GetTensorElementTypeAndShapeDataReference(value, &tensor.type, &made, &rank));
  check(host().GetTensorMutableData(value, &tensor.data));
  tensor.shape = shape;
  tensor.present = true;
  return tensor;
}

void Call::append(const fa_desc &desc, const fa_append_args &args) {
  resources_->op(desc)->append(args);
}

void Call::forward(const fa_desc &desc, fa::ForwardArgs args) {
  const auto op = resources_->op(desc);
  args.workspace_size = op->workspace_size(args);
  args.workspace = scratch_->take(args.workspace_size);
  (*op)(args);
}

void Call::run_parallel(int64_t count, void (*task)(void *, size_t), void *context) const {
  check(host().KernelContext_ParallelFor(context_, task, size_t(count), 0, context));
}

fa::Desc describe() {
  fa::Desc desc;
  desc.device = FA_DEVICE_CPU;
  desc.parallel_for = on_threads_of_session;
  return desc;
}

}  // namespace fa_ort

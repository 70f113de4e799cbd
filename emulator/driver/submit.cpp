// The stream of a handle, and the destination of its work: the GPU, or the stream's capture.
#include "driver/submit.h"

#include <algorithm>

#include "driver/capture.h"
#include "driver/state.h"

namespace fa::emu::driver {
namespace {

thread_local bool per_thread_default = false;

Stream &per_thread_stream(Context &context) {
  auto &stream = context.per_thread[std::this_thread::get_id()];
  if (!stream) {
    stream = std::make_unique<Stream>();
    stream->context = &context;
    stream->id = ++process().ids;
    make_alive(stream.get());
  }
  return *stream;
}

}  // namespace

PerThreadDefault::PerThreadDefault() : before_(per_thread_default) {
  per_thread_default = true;
}
PerThreadDefault::~PerThreadDefault() {
  per_thread_default = before_;
}

Stream &stream_of(CUstream handle) {
  Context &context = current();
  if (!handle) handle = per_thread_default ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_PER_THREAD) return per_thread_stream(context);
  if (handle == CU_STREAM_LEGACY) {
    require_legacy_allowed(context);
    return context.legacy;
  }
  Stream &stream = object<Stream>(handle);
  if (stream.context->sticky != CUDA_SUCCESS) refuse(stream.context->sticky, "a kernel of the stream's context failed");
  return stream;
}

std::vector<Done> order_of(const Stream &stream) {
  std::vector<Done> after = {stream.last};
  const Context &context = *stream.context;
  if (stream.blocking()) after.push_back(context.legacy.last);
  if (!stream.legacy) return after;
  for (const auto &other : context.streams)
    if (other->blocking()) after.push_back(other->last);
  for (const auto &[thread, other] : context.per_thread) after.push_back(other->last);
  return after;
}

Done enqueue_work(const Stream &stream, const Work &work, std::vector<Done> after, const Done &last) {
  Context &context = *stream.context;
  auto operation = std::make_shared<Operation>();
  operation->context = &context;
  if (settings().run.check)
    operation->stream = stream.legacy ? "the legacy stream" : "stream " + std::to_string(stream.id);
  operation->body = [&context, work](Operation &self) { perform(context, work, self); };
  const KernelWork *kernel = std::get_if<KernelWork>(&work);
  const ValueWork *value = std::get_if<ValueWork>(&work);
  if (value && value->waits) operation->ready = [awaited = *value] { return awaited.is_there(); };
  if (kernel) {
    operation->trigger = std::make_shared<Operation>();
    operation->trigger->context = &context;
  }
  bool overlaps = kernel && kernel->programmatic && last && last->trigger;
  if (overlaps) {
    std::replace(after.begin(), after.end(), last, last->trigger);
    operation->prerequisite = last;
  }
  operation->after = std::move(after);
  queue().push(operation);
  if (!overlaps) return operation;
  // The next operation waits for both.
  auto both = std::make_shared<Operation>();
  both->context = &context;
  both->trigger = operation->trigger;
  both->after = {last, operation};
  return queue().push(both);
}

void enqueue(Stream &stream, const Work &work) {
  stream.last = enqueue_work(stream, work, order_of(stream), stream.last);
}

void submit(Stream &stream, Work work) {
  check(*stream.context, work);
  if (stream.capture) return capture_work(stream, std::move(work));
  enqueue(stream, work);
}

}  // namespace fa::emu::driver

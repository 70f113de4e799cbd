// Streams: which one a handle means, their order, and their part of the API.
#include "driver/stream.h"

#include <algorithm>

#include "driver/capture.h"
#include "driver/state.h"

using namespace fa::emu::driver;

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

Done enqueue_work(Context &context, const Work &work, std::vector<Done> after, const Done &last) {
  auto operation = std::make_shared<Operation>();
  operation->context = &context;
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
  // What comes next waits for both.
  auto both = std::make_shared<Operation>();
  both->context = &context;
  both->trigger = operation->trigger;
  both->after = {last, operation};
  return queue().push(both);
}

void enqueue(Stream &stream, const Work &work) {
  stream.last = enqueue_work(*stream.context, work, order_of(stream), stream.last);
}

void submit(Stream &stream, Work work) {
  check(*stream.context, work);
  if (stream.capture) return capture_work(stream, std::move(work));
  enqueue(stream, work);
}

}  // namespace fa::emu::driver

namespace {

struct Callback {
  void (*function)(CUstream, CUresult, void *);
  CUstream stream;
  void *argument;
};

void run_callback(void *argument) {
  std::unique_ptr<Callback> callback(static_cast<Callback *>(argument));
  callback->function(callback->stream, CUDA_SUCCESS, callback->argument);
}

}  // namespace

EMU_API CUresult cuStreamCreateWithPriority(CUstream *handle, unsigned flags, int priority) {
  return api("cuStreamCreate", [&] {
    Lock lock(process().mutex);
    require(handle != nullptr, "no place for the stream");
    require(flags <= CU_STREAM_NON_BLOCKING, "unknown flags");
    Context &context = current();
    auto stream = std::make_unique<Stream>();
    stream->context = &context;
    stream->flags = flags;
    stream->priority = std::clamp(priority, -5, 0);
    stream->id = ++process().ids;
    make_alive(stream.get());
    *handle = handle_of<CUstream>(stream.get());
    context.streams.insert(std::move(stream));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamCreate(CUstream *handle, unsigned flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

EMU_API CUresult cuStreamDestroy_v2(CUstream handle) {
  return api("cuStreamDestroy", [&] {
    Lock lock(process().mutex);
    Stream &stream = object<Stream>(handle);
    forget(stream);
    // Its operations go on; they know their context.
    Context &context = *stream.context;
    if (stream.blocking() && stream.last)
      context.legacy.last = queue().push(&context, {context.legacy.last, stream.last}, {});
    erase_owned(context.streams, &stream);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamSynchronize(CUstream handle) {
  return api("cuStreamSynchronize", [&] {
    Done last;
    Context *context = nullptr;
    {
      Lock lock(process().mutex);
      Stream &stream = stream_of(handle);
      require_not_capturing(stream);
      context = stream.context;
      last = stream.legacy ? queue().push(context, order_of(stream), {}) : stream.last;
    }
    queue().wait(last);
    return context->sticky.load();
  });
}

EMU_API CUresult cuStreamQuery(CUstream handle) {
  return api("cuStreamQuery", [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    require_not_capturing(stream);
    for (const Done &one : order_of(stream))
      if ((stream.legacy || one == stream.last) && one && !one->done) return queue().asked(), CUDA_ERROR_NOT_READY;
    return stream.context->sticky.load();
  });
}

EMU_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  return api("cuStreamWaitEvent", [&] {
    Lock lock(process().mutex);
    Event &event = object<Event>(event_handle);
    Stream &stream = stream_of(handle);
    if (capture_wait(stream, event) || !event.recorded) return CUDA_SUCCESS;
    auto after = order_of(stream);
    after.push_back(event.recorded);
    stream.last = queue().push(stream.context, std::move(after), {});
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument) {
  return api("cuLaunchHostFunc", [&] {
    Lock lock(process().mutex);
    submit(stream_of(stream), HostWork{function, argument});
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamAddCallback(CUstream handle, void (*function)(CUstream, CUresult, void *), void *argument,
                                     unsigned) {
  return api("cuStreamAddCallback", [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    require_not_capturing(stream);
    require(function != nullptr, "no function");
    submit(stream, HostWork{run_callback, new Callback{function, handle, argument}});
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
  return answer("cuStreamGetFlags", flags, "flags", [&] { return stream_of(stream).flags; });
}

EMU_API CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  return answer("cuStreamGetPriority", priority, "priority", [&] { return stream_of(stream).priority; });
}

EMU_API CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
  return answer("cuStreamGetId", id, "number", [&] { return stream_of(stream).id; });
}

EMU_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  return answer("cuStreamGetCtx", context, "context", [&] { return handle_of<CUcontext>(stream_of(stream).context); });
}

EMU_API CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, void **green) {
  if (green) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}

EMU_API CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) {
  return answer("cuStreamGetDevice", device, "device", [&] { return stream_of(stream).context->device->ordinal; });
}

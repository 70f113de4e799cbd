// Streams: the API's functions.
#include "driver/stream.h"

#include <algorithm>

#include "driver/called_as.h"
#include "driver/capture.h"
#include "driver/state.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

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

/// For those who ask which context a stream is of, which FA_EMU_CAPTURE_CONTEXT may forbid.
Context *asked_context(CUstream handle) {
  Stream &stream = stream_of(handle);
  if (settings().refuse_capture_context) require_not_capturing(stream);
  return stream.context;
}

}  // namespace

EMU_API CUresult cuStreamCreateWithPriority(CUstream *handle, unsigned flags, int priority) {
  const CalledAs name("cuStreamCreateWithPriority");
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
  const CalledAs name("cuStreamCreate");
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
    const std::vector<Done> asked = stream.legacy ? order_of(stream) : std::vector{stream.last};
    for (const Done &one : asked)
      if (one && !one->done) return queue().asked(), CUDA_ERROR_NOT_READY;
    queue().seen(asked);
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
  return api_value("cuStreamGetFlags", flags, "flags", [&] { return stream_of(stream).flags; });
}

EMU_API CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  return api_value("cuStreamGetPriority", priority, "priority", [&] { return stream_of(stream).priority; });
}

EMU_API CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
  return api_value("cuStreamGetId", id, "number", [&] { return stream_of(stream).id; });
}

EMU_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  return api_value("cuStreamGetCtx", context, "context", [&] { return handle_of<CUcontext>(asked_context(stream)); });
}

EMU_API CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, void **green) {
  if (green) *green = nullptr;
  return cuStreamGetCtx(stream, context);
}

EMU_API CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) {
  return api_value("cuStreamGetDevice", device, "device", [&] { return asked_context(stream)->device->ordinal; });
}

// Events: recorded in streams, waited for, and timed.
#include "driver/called_as.h"
#include "driver/capture.h"
#include "driver/state.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

EMU_API CUresult cuEventCreate(CUevent *handle, unsigned flags) {
  return api("cuEventCreate", [&] {
    Lock lock(process().mutex);
    require(handle != nullptr && flags <= 7, "no place for the event, or unknown flags");
    constexpr unsigned interprocess = 4;
    require(!(flags & interprocess) || flags & CU_EVENT_DISABLE_TIMING, "an event between processes keeps no time");
    Context &context = current();
    auto event = std::make_unique<Event>();
    event->context = &context;
    event->flags = flags;
    make_alive(event.get());
    *handle = handle_of<CUevent>(event.get());
    context.events.insert(std::move(event));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuEventDestroy_v2(CUevent handle) {
  return api("cuEventDestroy", [&] {
    Lock lock(process().mutex);
    Event &event = object<Event>(handle);
    erase_owned(event.context->events, &event);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags) {
  const CalledAs name("cuEventRecordWithFlags");
  return api("cuEventRecord", [&] {
    Lock lock(process().mutex);
    Event &event = object<Event>(handle);
    Stream &stream = stream_of(stream_handle);
    require(stream.context == event.context, "the event and the stream are of different contexts",
            CUDA_ERROR_INVALID_HANDLE);
    constexpr unsigned external = 1;
    if (stream.capture && flags & external) {
      capture_work(stream, EventWork{&event, true});
      return CUDA_SUCCESS;
    }
    if (capture_record(stream, event)) return CUDA_SUCCESS;
    event.recorded = stream.last = queue().push(stream.context, order_of(stream), {});
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  const CalledAs name("cuEventRecord");
  return cuEventRecordWithFlags(event, stream, 0);
}

EMU_API CUresult cuEventQuery(CUevent handle) {
  return api("cuEventQuery", [&] {
    Lock lock(process().mutex);
    Event &event = object<Event>(handle);
    require_not_captured(event);
    if (event.recorded && !event.recorded->done) return queue().asked(), CUDA_ERROR_NOT_READY;
    queue().seen({event.recorded});
    return event.context->sticky.load();
  });
}

EMU_API CUresult cuEventSynchronize(CUevent handle) {
  return api("cuEventSynchronize", [&] {
    Done recorded;
    Context *context = nullptr;
    {
      Lock lock(process().mutex);
      Event &event = object<Event>(handle);
      require_not_captured(event);
      recorded = event.recorded;
      context = event.context;
    }
    queue().wait(recorded);
    return context->sticky.load();
  });
}

EMU_API CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent first, CUevent second) {
  return api("cuEventElapsedTime", [&] {
    Lock lock(process().mutex);
    require(milliseconds != nullptr, "no place for the time");
    Event &begin = object<Event>(first), &end = object<Event>(second);
    for (const Event *event : {&begin, &end}) {
      require_not_captured(*event);
      bool timed = event->recorded && !(event->flags & CU_EVENT_DISABLE_TIMING);
      require(timed, "an event that was never recorded, or keeps no time", CUDA_ERROR_INVALID_HANDLE);
      if (!event->recorded->done) return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end.recorded->ended - begin.recorded->ended).count();
    return CUDA_SUCCESS;
  });
}
EMU_API CUresult cuEventElapsedTime(float *milliseconds, CUevent first, CUevent second) {
  return cuEventElapsedTime_v2(milliseconds, first, second);
}

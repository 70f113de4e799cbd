// The way of work into a stream: the stream of a handle, and the operations that its next one waits for.
#pragma once

#include <vector>

#include "driver/stream.h"
#include "driver/work.h"

namespace fa::emu::driver {

/// The stream of a handle, which may be null, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD. Refuses others than the current
/// context's, and uses of the legacy stream that captures forbid.
Stream &stream_of(CUstream handle);
/// Hands work to the GPU, or to the capture that the stream takes part in.
void submit(Stream &stream, Work work);
/// Everything that a stream's next operation waits for.
std::vector<Done> order_of(const Stream &stream);
/// Enqueues a stream's work behind operations, of which a kernel may overlap the last one; the result is done when all
/// of it is.
Done enqueue_work(const Stream &stream, const Work &work, std::vector<Done> after, const Done &last);
/// Enqueues work behind a stream's operations.
void enqueue(Stream &stream, const Work &work);

/// While one lives, the calling thread's null stream is its own (the API's _ptsz and _ptds functions).
class PerThreadDefault {
 public:
  PerThreadDefault();
  ~PerThreadDefault();
  PerThreadDefault(const PerThreadDefault &) = delete;
  PerThreadDefault &operator=(const PerThreadDefault &) = delete;

 private:
  bool before_;
};

}  // namespace fa::emu::driver

// Capture: the API's functions.
#include "driver/capture.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

void get_status(const Stream &stream, int *status, cuuint64_t *id) {
  require(status != nullptr, "no place for the status");
  *status = !stream.capture ? 0 : stream.capture->invalid ? 2 : 1;
  if (id) *id = stream.capture ? stream.capture->id : 0;
}

}  // namespace

EMU_API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  return api("cuStreamBeginCapture", [&] {
    Lock lock(process().mutex);
    begin_capture(stream_of(stream), std::shared_ptr<Graph>(new Graph), {}, mode);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                             const CudaGraphEdge *, size_t count, int mode) {
  return api("cuStreamBeginCaptureToGraph", [&] {
    Lock lock(process().mutex);
    begin_capture(stream_of(stream), graph_of(graph), nodes_of(after, count), mode);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  return api("cuStreamEndCapture", [&] {
    Lock lock(process().mutex);
    require(graph != nullptr, "no place for the graph");
    Stream &stream = stream_of(handle);
    *graph = nullptr;
    auto capture = stream.capture;
    require(capture != nullptr, "the stream does not capture", CUDA_ERROR_ILLEGAL_STATE);
    require(capture->origin == &stream, "the capture began in another stream", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == std::this_thread::get_id(),
            "the capture began in another thread", CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    bool whole = is_joined(*capture);
    end_capture(capture);
    require(!capture->invalid, "a call while capturing has failed", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    require(whole, "another stream took part whose work the first one does not wait for",
            CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    *graph = adopt(capture->graph);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  return api("cuStreamIsCapturing", [&] {
    Lock lock(process().mutex);
    get_status(stream_of(stream), status, nullptr);
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int *status, cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **after, const CudaGraphEdge **edges, size_t *count) {
  return api("cuStreamGetCaptureInfo", [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    get_status(stream, status, id);
    if (*status != 1) return CUDA_SUCCESS;
    if (graph) *graph = handle_while_capturing(stream.capture->graph);
    // Valid until the stream's next call, as the driver says.
    if (after) *after = reinterpret_cast<const CUgraphNode *>(stream.capture_after.data());
    if (edges) *edges = nullptr;
    if (count) *count = stream.capture_after.size();
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, cuuint64_t *id, CUgraph *graph,
                                           const CUgraphNode **after, size_t *count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, nullptr, count);
}

EMU_API CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *after, const CudaGraphEdge *,
                                                      size_t count, unsigned flags) {
  return api("cuStreamUpdateCaptureDependencies", [&] {
    Lock lock(process().mutex);
    Stream &stream = stream_of(handle);
    require(stream.capture != nullptr, "the stream does not capture", CUDA_ERROR_ILLEGAL_STATE);
    require(flags <= 1, "flags are 0 (add) or 1 (set)");
    if (flags == 1) stream.capture_after.clear();
    add_dependencies(stream.capture_after, nodes_of(after, count));
    return CUDA_SUCCESS;
  });
}

EMU_API CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *after, size_t count, unsigned flags) {
  return cuStreamUpdateCaptureDependencies_v2(stream, after, nullptr, count, flags);
}

EMU_API CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  return api("cuThreadExchangeStreamCaptureMode", [&] {
    require(mode != nullptr && *mode >= 0 && *mode <= 2, "no such mode of capture");
    exchange_mode(*mode);
    return CUDA_SUCCESS;
  });
}

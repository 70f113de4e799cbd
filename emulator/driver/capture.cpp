// The rules of capture.
#include "driver/capture.h"

#include <algorithm>

namespace fa::emu::driver {
namespace {

std::vector<std::shared_ptr<Capture>> &captures() {
  static auto *const all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

thread_local int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

[[noreturn]] void invalidate(Capture &capture, CUresult code, const char *reason) {
  capture.invalid = true;
  refuse(code, reason);
}

}  // namespace

void begin_capture(Stream &stream, std::shared_ptr<Graph> graph, std::vector<GraphNode *> after, int mode) {
  require(mode >= 0 && mode <= 2, "no such mode of capture");
  require(!stream.legacy, "the legacy stream cannot capture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  require(!stream.capture, "the stream captures already", CUDA_ERROR_ILLEGAL_STATE);
  auto capture = std::make_shared<Capture>();
  capture->graph = std::move(graph);
  capture->origin = &stream;
  capture->streams = {&stream};
  capture->thread = std::this_thread::get_id();
  capture->mode = mode;
  capture->id = ++process().ids;
  stream.capture = capture;
  stream.capture_after = std::move(after);
  captures().push_back(capture);
}

void end_capture(const std::shared_ptr<Capture> &capture) {
  for (Stream *stream : capture->streams) {
    stream->capture.reset();
    stream->capture_after.clear();
  }
  std::erase(captures(), capture);
}

bool is_joined(const Capture &capture) {
  std::set<const GraphNode *> before;
  std::vector<const GraphNode *> open(capture.origin->capture_after.begin(), capture.origin->capture_after.end());
  while (!open.empty()) {
    const GraphNode *node = open.back();
    open.pop_back();
    if (before.insert(node).second) open.insert(open.end(), node->after.begin(), node->after.end());
  }
  for (const Stream *stream : capture.streams)
    for (const GraphNode *node : stream->capture_after)
      if (!before.count(node)) return false;
  return true;
}

void add_dependencies(std::vector<GraphNode *> &list, const std::vector<GraphNode *> &more) {
  for (GraphNode *node : more)
    if (std::find(list.begin(), list.end(), node) == list.end()) list.push_back(node);
}

void require_no_capture() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool forbidden = false;
  for (const auto &capture : captures()) {
    bool own = capture->thread == std::this_thread::get_id() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool global = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !global) continue;
    capture->invalid = forbidden = true;
  }
  require(!forbidden, "not while a stream captures", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void require_no_capture_in(Context &context) {
  bool found = false;
  for (const auto &capture : captures())
    if (capture->origin->context == &context) capture->invalid = found = true;
  require(!found, "a stream of this context captures", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void require_not_capturing(Stream &stream) {
  if (stream.capture) invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream captures");
}

void require_legacy_allowed(Context &context) {
  bool found = false;
  for (const auto &capture : captures())
    for (Stream *stream : capture->streams)
      if (stream->context == &context && stream->blocking()) capture->invalid = found = true;
  require(!found, "the legacy stream would wait for a blocking stream that captures",
          CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

void capture_work(Stream &stream, Work work) {
  Capture &capture = *stream.capture;
  require(!capture.invalid, "the capture was invalidated before", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  GraphNode *node = capture.graph->add(std::move(work), stream.capture_after);
  stream.capture_after = {node};
}

bool capture_record(Stream &stream, Event &event) {
  if (!stream.capture) {
    event.captured = false;
    return false;
  }
  require(!stream.capture->invalid, "the capture was invalidated before", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  event.captured = true;
  event.capture = stream.capture;
  event.after = stream.capture_after;
  return true;
}

bool capture_wait(Stream &stream, Event &event) {
  if (!event.captured) {
    if (!stream.capture) return false;
    if (event.recorded)
      invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "the event was recorded outside of the capture");
    return true;
  }
  auto capture = event.capture.lock();
  require(capture != nullptr, "the event was recorded in a capture that has ended", CUDA_ERROR_CAPTURED_EVENT);
  require(!capture->invalid, "the capture was invalidated before", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  if (stream.legacy) invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream cannot take part");
  if (stream.capture && stream.capture != capture) {
    capture->invalid = true;
    invalidate(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_MERGE, "the event belongs to another capture");
  }
  stream.capture = capture;
  capture->streams.insert(&stream);
  add_dependencies(stream.capture_after, event.after);
  return true;
}

void require_not_captured(const Event &event) {
  if (!event.captured) return;
  if (auto capture = event.capture.lock()) capture->invalid = true;
  refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture");
}

void forget(Stream &stream) {
  if (!stream.capture) return;
  auto capture = stream.capture;
  capture->invalid = true;
  if (capture->origin == &stream) return end_capture(capture);
  capture->streams.erase(&stream);
}

void exchange_mode(int &mode) {
  std::swap(mode, thread_mode);
}

}  // namespace fa::emu::driver

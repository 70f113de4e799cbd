// The context of a stream that captures; FA_EMU_CAPTURE_CONTEXT decides whether it may be asked for.
#include "fixture.h"

namespace {

using namespace emulated;

bool refused() {
  const char *setting = std::getenv("FA_EMU_CAPTURE_CONTEXT");
  return setting && std::string(setting) == "refuse";
}

/// The result of a query while the stream captures; the capture has to end with the error that is wanted.
template <class Ask>
void expect_while_capturing(Ask ask) {
  start();
  StreamHandle stream;
  CUgraph graph = nullptr;
  EXPECT_EQ(ask(stream.handle), CUDA_SUCCESS);
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream.handle, 2), CUDA_SUCCESS);
  EXPECT_EQ(ask(stream.handle), refused() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
  EXPECT_EQ(call("cuStreamEndCapture", stream.handle, &graph),
            refused() ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
  EXPECT_EQ(ask(stream.handle), CUDA_SUCCESS);
  if (graph) {
    EXPECT_EQ(call("cuGraphDestroy", graph), CUDA_SUCCESS);
  }
}

TEST(CaptureContext, OfTheStream) {
  expect_while_capturing([](CUstream stream) {
    CUcontext context = nullptr;
    return call("cuStreamGetCtx", stream, &context);
  });
  expect_while_capturing([](CUstream stream) {
    CUcontext context = nullptr;
    void *green = nullptr;
    return call("cuStreamGetCtx_v2", stream, &context, &green);
  });
}

TEST(CaptureContext, DeviceOfTheStream) {
  expect_while_capturing([](CUstream stream) {
    CUdevice device = -1;
    return call("cuStreamGetDevice", stream, &device);
  });
}

}  // namespace

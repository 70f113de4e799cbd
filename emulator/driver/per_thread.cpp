// Functions whose null stream is the calling thread's own: called by programs that were compiled for it (nvcc
// --default-stream per-thread), by the names with _ptsz (they take a stream) and _ptds (they do not).
#include "driver/cuda_structs.h"
#include "driver/state.h"
#include "driver/submit.h"

using fa::emu::driver::PerThreadDefault;

#define EMU_PER_THREAD(name, suffix, parameters, arguments) \
  EMU_API CUresult name parameters;                         \
  EMU_API CUresult name##suffix parameters {                \
    PerThreadDefault scope;                                 \
    return name arguments;                                  \
  }

EMU_PER_THREAD(cuStreamBeginCapture_v2, _ptsz, (CUstream a, int b), (a, b))
EMU_PER_THREAD(cuStreamBeginCaptureToGraph, _ptsz,
               (CUstream a, CUgraph b, const CUgraphNode *c, const CudaGraphEdge *d, size_t e, int f),
               (a, b, c, d, e, f))
EMU_PER_THREAD(cuStreamEndCapture, _ptsz, (CUstream a, CUgraph *b), (a, b))
EMU_PER_THREAD(cuStreamIsCapturing, _ptsz, (CUstream a, int *b), (a, b))
EMU_PER_THREAD(cuStreamGetCaptureInfo_v3, _ptsz,
               (CUstream a, int *b, cuuint64_t *c, CUgraph *d, const CUgraphNode **e, const CudaGraphEdge **f,
                size_t *g),
               (a, b, c, d, e, f, g))
EMU_PER_THREAD(cuStreamGetCaptureInfo_v2, _ptsz,
               (CUstream a, int *b, cuuint64_t *c, CUgraph *d, const CUgraphNode **e, size_t *f), (a, b, c, d, e, f))
EMU_PER_THREAD(cuStreamUpdateCaptureDependencies_v2, _ptsz,
               (CUstream a, CUgraphNode *b, const CudaGraphEdge *c, size_t d, unsigned e), (a, b, c, d, e))
EMU_PER_THREAD(cuStreamUpdateCaptureDependencies, _ptsz, (CUstream a, CUgraphNode *b, size_t c, unsigned d),
               (a, b, c, d))
EMU_PER_THREAD(cuMemcpy, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
EMU_PER_THREAD(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr a, const void *b, size_t c), (a, b, c))
EMU_PER_THREAD(cuMemcpyDtoH_v2, _ptds, (void *a, CUdeviceptr b, size_t c), (a, b, c))
EMU_PER_THREAD(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
EMU_PER_THREAD(cuMemcpyPeer, _ptds, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e), (a, b, c, d, e))
EMU_PER_THREAD(cuMemcpyAsync, _ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr a, const void *b, size_t c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemcpyDtoHAsync_v2, _ptsz, (void *a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemcpyPeerAsync, _ptsz, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e, CUstream f),
               (a, b, c, d, e, f))
EMU_PER_THREAD(cuMemcpy2D_v2, _ptds, (const CudaCopy2D *a), (a))
EMU_PER_THREAD(cuMemcpy2DUnaligned_v2, _ptds, (const CudaCopy2D *a), (a))
EMU_PER_THREAD(cuMemcpy2DAsync_v2, _ptsz, (const CudaCopy2D *a, CUstream b), (a, b))
EMU_PER_THREAD(cuMemcpy3D_v2, _ptds, (const CudaCopy3D *a), (a))
EMU_PER_THREAD(cuMemcpy3DAsync_v2, _ptsz, (const CudaCopy3D *a, CUstream b), (a, b))
EMU_PER_THREAD(cuMemcpy3DPeer, _ptds, (const CudaCopy3D *a), (a))
EMU_PER_THREAD(cuMemcpy3DPeerAsync, _ptsz, (const CudaCopy3D *a, CUstream b), (a, b))
EMU_PER_THREAD(cuEventRecordWithFlags, _ptsz, (CUevent a, CUstream b, unsigned c), (a, b, c))
EMU_PER_THREAD(cuEventRecord, _ptsz, (CUevent a, CUstream b), (a, b))
EMU_PER_THREAD(cuGraphInstantiateWithParams, _ptsz, (CUgraphExec * a, CUgraph b, CudaGraphInstantiate *c), (a, b, c))
EMU_PER_THREAD(cuGraphUpload, _ptsz, (CUgraphExec a, CUstream b), (a, b))
EMU_PER_THREAD(cuGraphLaunch, _ptsz, (CUgraphExec a, CUstream b), (a, b))
EMU_PER_THREAD(cuLaunchKernel, _ptsz,
               (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g, unsigned h,
                CUstream i, void **j, void **k),
               (a, b, c, d, e, f, g, h, i, j, k))
EMU_PER_THREAD(cuLaunchKernelEx, _ptsz, (const CudaLaunchConfig *a, CUfunction b, void **c, void **d), (a, b, c, d))
EMU_PER_THREAD(cuLaunchCooperativeKernel, _ptsz,
               (CUfunction a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned g, unsigned h,
                CUstream i, void **j),
               (a, b, c, d, e, f, g, h, i, j))
EMU_PER_THREAD(cuMemPrefetchAsync_v2, _ptsz, (CUdeviceptr a, size_t b, CudaMemLocation c, unsigned d, CUstream e),
               (a, b, c, d, e))
EMU_PER_THREAD(cuMemPrefetchAsync, _ptsz, (CUdeviceptr a, size_t b, CUdevice c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemAllocAsync, _ptsz, (CUdeviceptr * a, size_t b, CUstream c), (a, b, c))
EMU_PER_THREAD(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * a, size_t b, CUmemoryPool c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemFreeAsync, _ptsz, (CUdeviceptr a, CUstream b), (a, b))
EMU_PER_THREAD(cuMemsetD8_v2, _ptds, (CUdeviceptr a, unsigned char b, size_t c), (a, b, c))
EMU_PER_THREAD(cuMemsetD16_v2, _ptds, (CUdeviceptr a, unsigned short b, size_t c), (a, b, c))
EMU_PER_THREAD(cuMemsetD32_v2, _ptds, (CUdeviceptr a, unsigned b, size_t c), (a, b, c))
EMU_PER_THREAD(cuMemsetD8Async, _ptsz, (CUdeviceptr a, unsigned char b, size_t c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemsetD16Async, _ptsz, (CUdeviceptr a, unsigned short b, size_t c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemsetD32Async, _ptsz, (CUdeviceptr a, unsigned b, size_t c, CUstream d), (a, b, c, d))
EMU_PER_THREAD(cuMemsetD2D8_v2, _ptds, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e), (a, b, c, d, e))
EMU_PER_THREAD(cuMemsetD2D16_v2, _ptds, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e),
               (a, b, c, d, e))
EMU_PER_THREAD(cuMemsetD2D32_v2, _ptds, (CUdeviceptr a, size_t b, unsigned c, size_t d, size_t e), (a, b, c, d, e))
EMU_PER_THREAD(cuMemsetD2D8Async, _ptsz, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e, CUstream f),
               (a, b, c, d, e, f))
EMU_PER_THREAD(cuMemsetD2D16Async, _ptsz, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e, CUstream f),
               (a, b, c, d, e, f))
EMU_PER_THREAD(cuMemsetD2D32Async, _ptsz, (CUdeviceptr a, size_t b, unsigned c, size_t d, size_t e, CUstream f),
               (a, b, c, d, e, f))
EMU_PER_THREAD(cuStreamSynchronize, _ptsz, (CUstream a), (a))
EMU_PER_THREAD(cuStreamQuery, _ptsz, (CUstream a), (a))
EMU_PER_THREAD(cuStreamWaitEvent, _ptsz, (CUstream a, CUevent b, unsigned c), (a, b, c))
EMU_PER_THREAD(cuLaunchHostFunc, _ptsz, (CUstream a, CUhostFn b, void *c), (a, b, c))
EMU_PER_THREAD(cuStreamAddCallback, _ptsz, (CUstream a, void (*b)(CUstream, CUresult, void *), void *c, unsigned d),
               (a, b, c, d))
EMU_PER_THREAD(cuStreamGetFlags, _ptsz, (CUstream a, unsigned *b), (a, b))
EMU_PER_THREAD(cuStreamGetPriority, _ptsz, (CUstream a, int *b), (a, b))
EMU_PER_THREAD(cuStreamGetId, _ptsz, (CUstream a, unsigned long long *b), (a, b))
EMU_PER_THREAD(cuStreamGetCtx, _ptsz, (CUstream a, CUcontext *b), (a, b))
EMU_PER_THREAD(cuStreamGetCtx_v2, _ptsz, (CUstream a, CUcontext *b, void **c), (a, b, c))
EMU_PER_THREAD(cuStreamGetDevice, _ptsz, (CUstream a, CUdevice *b), (a, b))
EMU_PER_THREAD(cuMemcpyBatchAsync, _ptsz,
               (CUdeviceptr * a, CUdeviceptr *b, size_t *c, size_t d, CudaCopyAttributes *e, size_t *f, size_t g,
                size_t *h, CUstream i),
               (a, b, c, d, e, f, g, h, i))
EMU_PER_THREAD(cuMemcpyBatchAsync_v2, _ptsz,
               (CUdeviceptr * a, CUdeviceptr *b, size_t *c, size_t d, CudaCopyAttributes *e, size_t *f, size_t g,
                CUstream h),
               (a, b, c, d, e, f, g, h))
EMU_PER_THREAD(cuMemPrefetchBatchAsync, _ptsz,
               (CUdeviceptr * a, size_t *b, size_t c, CudaMemLocation *d, size_t *e, size_t f, unsigned long long g,
                CUstream h),
               (a, b, c, d, e, f, g, h))
EMU_PER_THREAD(cuStreamAttachMemAsync, _ptsz, (CUstream a, CUdeviceptr b, size_t c, unsigned d), (a, b, c, d))
EMU_PER_THREAD(cuStreamWriteValue32_v2, _ptsz, (CUstream a, CUdeviceptr b, uint32_t c, unsigned d), (a, b, c, d))
EMU_PER_THREAD(cuStreamWriteValue64_v2, _ptsz, (CUstream a, CUdeviceptr b, uint64_t c, unsigned d), (a, b, c, d))
EMU_PER_THREAD(cuStreamWaitValue32_v2, _ptsz, (CUstream a, CUdeviceptr b, uint32_t c, unsigned d), (a, b, c, d))
EMU_PER_THREAD(cuStreamWaitValue64_v2, _ptsz, (CUstream a, CUdeviceptr b, uint64_t c, unsigned d), (a, b, c, d))
EMU_PER_THREAD(cuStreamBatchMemOp_v2, _ptsz, (CUstream a, unsigned b, CudaBatchEntry *c, unsigned d), (a, b, c, d))
EMU_PER_THREAD(cuStreamSetAttribute, _ptsz, (CUstream a, int b, const CudaAttributeValue *c), (a, b, c))
EMU_PER_THREAD(cuStreamGetAttribute, _ptsz, (CUstream a, int b, CudaAttributeValue *c), (a, b, c))
EMU_PER_THREAD(cuStreamCopyAttributes, _ptsz, (CUstream a, CUstream b), (a, b))

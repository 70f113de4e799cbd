// Copies and sets. Those of a stream are queued; the others wait until they are done. Memory of the host that the
// driver does not know (pageable) is read before a call returns, and written before it returns.
#include <cstdint>
#include <cstring>

#include "driver/capture.h"
#include "driver/graph.h"
#include "driver/memory_table.h"
#include "driver/submit.h"

using namespace fa::emu::driver;

namespace {

bool is_pageable(const CopyEnd &end) {
  return end.side != Side::device && !is_known(end.address);
}

/// Packs the source, row by row; the copy then reads from there.
void stage(CopyWork &work) {
  work.staged = std::make_shared<std::vector<uint8_t>>(work.width * work.height * work.depth);
  uint8_t *to = work.staged->data();
  for (uint64_t z = 0; z < work.depth; z++)
    for (uint64_t y = 0; y < work.height; y++, to += work.width) {
      uint64_t at = work.from.address + z * work.from.plane + y * work.from.pitch;
      std::memcpy(to, reinterpret_cast<const void *>(at), work.width);
    }
  work.from.pitch = work.width;
  work.from.plane = work.width * work.height;
}

/// name: of the function; synchronous: returns when the copy is done.
CUresult submit_copy(const char *name, CopyWork work, CUstream handle, bool synchronous) {
  return api(name, [&] {
    Done last;
    Context *context = nullptr;
    {
      Lock lock(process().mutex);
      Stream &stream = stream_of(handle);
      if (synchronous) {
        require_not_capturing(stream);
        require_no_capture();
      }
      context = stream.context;
      check(*context, work);
      if (work.width == 0 || work.height == 0 || work.depth == 0) return CUDA_SUCCESS;
      if (stream.capture) {
        capture_work(stream, work);
        return CUDA_SUCCESS;
      }
      bool writes_pageable = is_pageable(work.to);
      if (!synchronous && is_pageable(work.from) && !writes_pageable) stage(work);
      enqueue(stream, work);
      if (!synchronous && !writes_pageable) return CUDA_SUCCESS;
      last = stream.last;
    }
    queue().wait(last);
    return context->sticky.load();
  });
}

CopyWork flat(uint64_t to, Side to_side, uint64_t from, Side from_side, size_t bytes) {
  CopyWork work;
  work.from = {from, from_side, 0, 0};
  work.to = {to, to_side, 0, 0};
  work.width = bytes;
  return work;
}

uint64_t host(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

template <class End>
CopyEnd end_of(const End &end) {
  CopyEnd result;
  switch (end.memory_type) {
    case CU_MEMORYTYPE_HOST:
      result.address = host(end.host);
      result.side = Side::host;
      break;
    case CU_MEMORYTYPE_DEVICE:
      result.address = end.device;
      result.side = Side::device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      result.address = end.device;
      break;
    case CU_MEMORYTYPE_ARRAY:
      refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has no arrays");
    default:
      refuse(CUDA_ERROR_INVALID_VALUE, "no such type of memory");
  }
  result.pitch = end.pitch;
  return result;
}

CUresult copy_2d(const char *name, const CudaCopy2D *copy, CUstream stream, bool synchronous) {
  CopyWork work;
  CUresult read = api(name, [&] {
    require(copy != nullptr, "no parameters");
    work.from = end_of(copy->source);
    work.to = end_of(copy->destination);
    work.from.address += copy->source.y * copy->source.pitch + copy->source.x;
    work.to.address += copy->destination.y * copy->destination.pitch + copy->destination.x;
    work.width = copy->width;
    work.height = copy->height;
    return CUDA_SUCCESS;
  });
  return read == CUDA_SUCCESS ? submit_copy(name, work, stream, synchronous) : read;
}

CUresult copy_3d(const char *name, const CudaCopy3D *copy, CUstream stream, bool synchronous) {
  CopyWork work;
  CUresult read = api(name, [&] {
    require(copy != nullptr, "no parameters");
    work = copy_work(*copy);
    return CUDA_SUCCESS;
  });
  return read == CUDA_SUCCESS ? submit_copy(name, work, stream, synchronous) : read;
}

}  // namespace

namespace fa::emu::driver {

CopyWork copy_work(const CudaCopy3D &copy) {
  CopyWork work;
  auto place = [](const CudaCopyEnd3D &end) {
    CopyEnd result = end_of(end);
    result.plane = end.pitch * end.height;
    result.address += end.z * result.plane + end.y * end.pitch + end.x;
    return result;
  };
  work.from = place(copy.source);
  work.to = place(copy.destination);
  work.width = copy.width;
  work.height = copy.height;
  work.depth = copy.depth;
  return work;
}

}  // namespace fa::emu::driver

EMU_API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return submit_copy("cuMemcpy", flat(to, Side::unified, from, Side::unified, bytes), nullptr, true);
}
EMU_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return submit_copy("cuMemcpyHtoD", flat(to, Side::device, host(from), Side::host, bytes), nullptr, true);
}
EMU_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return submit_copy("cuMemcpyDtoH", flat(host(to), Side::host, from, Side::device, bytes), nullptr, true);
}
EMU_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return submit_copy("cuMemcpyDtoD", flat(to, Side::device, from, Side::device, bytes), nullptr, true);
}
EMU_API CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes) {
  return submit_copy("cuMemcpyPeer", flat(to, Side::device, from, Side::device, bytes), nullptr, true);
}
EMU_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit_copy("cuMemcpyAsync", flat(to, Side::unified, from, Side::unified, bytes), stream, false);
}
EMU_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return submit_copy("cuMemcpyHtoDAsync", flat(to, Side::device, host(from), Side::host, bytes), stream, false);
}
EMU_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit_copy("cuMemcpyDtoHAsync", flat(host(to), Side::host, from, Side::device, bytes), stream, false);
}
EMU_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return submit_copy("cuMemcpyDtoDAsync", flat(to, Side::device, from, Side::device, bytes), stream, false);
}
EMU_API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
                                   CUstream stream) {
  return submit_copy("cuMemcpyPeerAsync", flat(to, Side::device, from, Side::device, bytes), stream, false);
}

EMU_API CUresult cuMemcpy2D_v2(const CudaCopy2D *copy) {
  return copy_2d("cuMemcpy2D", copy, nullptr, true);
}
EMU_API CUresult cuMemcpy2DUnaligned_v2(const CudaCopy2D *copy) {
  return copy_2d("cuMemcpy2DUnaligned", copy, nullptr, true);
}
EMU_API CUresult cuMemcpy2DAsync_v2(const CudaCopy2D *copy, CUstream stream) {
  return copy_2d("cuMemcpy2DAsync", copy, stream, false);
}
EMU_API CUresult cuMemcpy3D_v2(const CudaCopy3D *copy) {
  return copy_3d("cuMemcpy3D", copy, nullptr, true);
}
EMU_API CUresult cuMemcpy3DAsync_v2(const CudaCopy3D *copy, CUstream stream) {
  return copy_3d("cuMemcpy3DAsync", copy, stream, false);
}
EMU_API CUresult cuMemcpy3DPeer(const CudaCopy3D *copy) {
  return copy_3d("cuMemcpy3DPeer", copy, nullptr, true);
}
EMU_API CUresult cuMemcpy3DPeerAsync(const CudaCopy3D *copy, CUstream stream) {
  return copy_3d("cuMemcpy3DPeerAsync", copy, stream, false);
}

/// Copies of a batch may run in any order; here they run in theirs. failed: which one could not be enqueued.
EMU_API CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                    CudaCopyAttributes *attributes, size_t *first, size_t attribute_count,
                                    size_t *failed, CUstream stream) {
  size_t done = SIZE_MAX;
  CUresult result = api("cuMemcpyBatchAsync", [&] {
    require(stream != nullptr && stream != CU_STREAM_LEGACY, "a batch needs a stream that is not the legacy one");
    require(to && from && bytes && count > 0, "no copies");
    require(attributes && first && attribute_count > 0 && attribute_count <= count && first[0] == 0,
            "attributes, which begin with the first copy, are needed");
    for (size_t i = 0; i < attribute_count; i++) {
      require(attributes[i].order >= 1 && attributes[i].order <= 3, "no such order of access");
      require(first[i] < count && (i == 0 || first[i] > first[i - 1]), "indices of attributes rise");
    }
    return CUDA_SUCCESS;
  });
  for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++) {
    result =
        submit_copy("cuMemcpyBatchAsync", flat(to[i], Side::unified, from[i], Side::unified, bytes[i]), stream, false);
    if (result != CUDA_SUCCESS) done = i;
  }
  if (failed && result != CUDA_SUCCESS) *failed = done;
  return result;
}
EMU_API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
                                       CudaCopyAttributes *attributes, size_t *first, size_t attribute_count,
                                       CUstream stream) {
  return cuMemcpyBatchAsync(to, from, bytes, count, attributes, first, attribute_count, nullptr, stream);
}

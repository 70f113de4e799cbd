"""A program on NVIDIA's cuda-bindings: devices, PTX, launches, copies, streams, events, graphs, errors."""
import ctypes
import os

import numpy as np
from cuda.bindings import driver as cu

PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 values, .param .f32 factor, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<4>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [values];
  ld.param.f32 %f1, [factor];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra end;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd3], %f3;
end:
  ret;
}
\0"""


def ok(answer):
    """The results of a call that must succeed."""
    assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]


def main():
    ok(cu.cuInit(0))
    devices = ok(cu.cuDeviceGetCount())
    assert devices == len(os.environ["FA_EMU_DEVICE"].split(","))
    device = ok(cu.cuDeviceGet(0))
    attribute = cu.CUdevice_attribute
    major = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    assert os.environ["FA_EMU_DEVICE"].rstrip("af") == f"sm_{major}{minor}"
    print(ok(cu.cuDeviceGetName(100, device)).split(b"\0")[0].decode(), f"{major}.{minor}")
    context = ok(cu.cuDevicePrimaryCtxRetain(device))
    ok(cu.cuCtxSetCurrent(context))
    module = ok(cu.cuModuleLoadData(PTX))
    scale = ok(cu.cuModuleGetFunction(module, b"scale"))

    n = 1000
    values = np.arange(n, dtype=np.float32)
    memory = ok(cu.cuMemAlloc(values.nbytes))
    stream = ok(cu.cuStreamCreate(0))
    begin, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
    parameters = ((memory, 3.0, n), (None, ctypes.c_float, ctypes.c_uint32))
    ok(cu.cuMemcpyHtoDAsync(memory, values.ctypes.data, values.nbytes, stream))
    ok(cu.cuEventRecord(begin, stream))
    ok(cu.cuLaunchKernel(scale, (n + 127) // 128, 1, 1, 128, 1, 1, 0, stream, parameters, 0))
    ok(cu.cuEventRecord(end, stream))
    result = np.empty_like(values)
    ok(cu.cuMemcpyDtoHAsync(result.ctypes.data, memory, values.nbytes, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert np.array_equal(result, values * 3)
    assert ok(cu.cuEventElapsedTime(begin, end)) >= 0

    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    ok(cu.cuLaunchKernel(scale, (n + 127) // 128, 1, 1, 128, 1, 1, 0, stream, parameters, 0))
    graph = ok(cu.cuStreamEndCapture(stream))
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    ok(cu.cuMemcpyDtoH(result.ctypes.data, memory, values.nbytes))
    assert np.array_equal(result, values * 27)
    ok(cu.cuGraphExecDestroy(executable))
    ok(cu.cuGraphDestroy(graph))

    error, = cu.cuMemFree(12345)
    assert error == cu.CUresult.CUDA_ERROR_INVALID_VALUE
    assert ok(cu.cuGetErrorName(error)) == b"CUDA_ERROR_INVALID_VALUE"
    ok(cu.cuMemFree(memory))
    ok(cu.cuModuleUnload(module))
    ok(cu.cuStreamDestroy(stream))
    ok(cu.cuDevicePrimaryCtxRelease(device))
    print("cuda-bindings: all right")


main()

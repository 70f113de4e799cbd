"""A program on NVIDIA's cuda-bindings: devices, PTX, launches, copies, streams, events, graphs, errors."""
import ctypes
import os

import numpy as np
from client_kernel import PTX, check_device
from cuda.bindings import driver as cu


def ok(result):
    """The results of a call that must succeed."""
    assert result[0] == cu.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]


def main():
    ok(cu.cuInit(0))
    devices = ok(cu.cuDeviceGetCount())
    assert devices == len(os.environ["FA_EMU_DEVICE"].split(","))
    device = ok(cu.cuDeviceGet(0))
    attribute = cu.CUdevice_attribute
    major = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = ok(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    check_device(ok(cu.cuDeviceGetName(100, device)).split(b"\0")[0].decode(), major, minor)
    context = ok(cu.cuDevicePrimaryCtxRetain(device))
    ok(cu.cuCtxSetCurrent(context))
    module = ok(cu.cuModuleLoadData(PTX + b"\0"))
    change = ok(cu.cuModuleGetFunction(module, b"change"))

    n = 1000
    values = np.arange(n, dtype=np.float32)
    memory = ok(cu.cuMemAlloc(values.nbytes))
    stream = ok(cu.cuStreamCreate(0))
    begin, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
    parameters = ((memory, n, 3.0, 1.0), (None, ctypes.c_uint32, ctypes.c_float, ctypes.c_float))
    ok(cu.cuMemcpyHtoDAsync(memory, values.ctypes.data, values.nbytes, stream))
    ok(cu.cuEventRecord(begin, stream))
    ok(cu.cuLaunchKernel(change, (n + 127) // 128, 1, 1, 128, 1, 1, 0, stream, parameters, 0))
    ok(cu.cuEventRecord(end, stream))
    result = np.empty_like(values)
    ok(cu.cuMemcpyDtoHAsync(result.ctypes.data, memory, values.nbytes, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert np.array_equal(result, values * 3 + 1)
    assert ok(cu.cuEventElapsedTime(begin, end)) >= 0

    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    ok(cu.cuLaunchKernel(change, (n + 127) // 128, 1, 1, 128, 1, 1, 0, stream, parameters, 0))
    graph = ok(cu.cuStreamEndCapture(stream))
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    ok(cu.cuMemcpyDtoH(result.ctypes.data, memory, values.nbytes))
    assert np.array_equal(result, values * 27 + 13)
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

"""A program on the runtime of CUDA 12, which is shared here, where nvcc's tests have that of 13 (tests/runtime)."""
import ctypes
import os
import site
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_void_p

from client_kernel import PTX, check_device

MAJOR, MINOR = 75, 76  # cudaDevAttrComputeCapability...
TO_DEVICE, TO_HOST = 1, 2

path = next(path for folder in site.getsitepackages()
            if os.path.exists(path := f"{folder}/nvidia/cuda_runtime/lib/libcudart.so.12"))
cuda = ctypes.CDLL(path)
cuda.cudaGetErrorName.restype = ctypes.c_char_p


class Dim(ctypes.Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


def ok(error):
    assert error == 0, cuda.cudaGetErrorName(error)


def attribute(number):
    value = c_int()
    ok(cuda.cudaDeviceGetAttribute(byref(value), number, 0))
    return value.value


def change(kernel, memory, n, factor, add, stream):
    arguments = (c_void_p * 4)(*(ctypes.addressof(a) for a in (memory, n, factor, add)))
    ok(cuda.cudaLaunchKernel(kernel, Dim((n.value + 63) // 64, 1, 1), Dim(64, 1, 1), arguments, c_size_t(0), stream))


def run():
    """Once from start to cudaDeviceReset."""
    n, memory, stream, graph, runnable = c_uint(500), c_void_p(), c_void_p(), c_void_p(), c_void_p()
    library, kernel = c_void_p(), c_void_p()
    host = (c_float * n.value)(*range(n.value))
    ok(cuda.cudaLibraryLoadData(byref(library), PTX + b"\0", None, None, 0, None, None, 0))
    ok(cuda.cudaLibraryGetKernel(byref(kernel), library, b"change"))
    ok(cuda.cudaMalloc(byref(memory), c_size_t(ctypes.sizeof(host))))
    ok(cuda.cudaStreamCreate(byref(stream)))
    ok(cuda.cudaMemcpyAsync(memory, host, c_size_t(ctypes.sizeof(host)), TO_DEVICE, stream))
    change(kernel, memory, n, c_float(1), c_float(7), stream)
    ok(cuda.cudaStreamBeginCapture(stream, 0))
    change(kernel, memory, n, c_float(2), c_float(-1), stream)
    ok(cuda.cudaStreamEndCapture(stream, byref(graph)))
    ok(cuda.cudaGraphInstantiate(byref(runnable), graph, ctypes.c_ulonglong(0)))
    for _ in range(2):
        ok(cuda.cudaGraphLaunch(runnable, stream))
    ok(cuda.cudaMemcpyAsync(host, memory, c_size_t(ctypes.sizeof(host)), TO_HOST, stream))
    ok(cuda.cudaStreamSynchronize(stream))
    assert list(host) == [(i + 7) * 4 - 3 for i in range(n.value)]
    ok(cuda.cudaLibraryUnload(library))
    ok(cuda.cudaDeviceReset())


version = c_int()
ok(cuda.cudaRuntimeGetVersion(byref(version)))
check_device(f"cudart {version.value}", attribute(MAJOR), attribute(MINOR))
run()
run()
print("cudart 12: all right")

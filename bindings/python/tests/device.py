"""Device arrays of no library: memory of the CUDA driver, seen through DLPack or __cuda_array_interface__."""

import ctypes

import numpy as np

_driver = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(_driver, name)(*arguments)
    assert status == 0, f"{name}: {status}"


def use(index):
    """Makes GPU index the one that memory is allocated on."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), index)
    call("cuCtxSetCurrent", context)


class DeviceArray:
    """A copy of a numpy array in device memory."""

    def __init__(self, array, index=0):
        self.shape, self.dtype, self.index, self.size = array.shape, array.dtype, index, array.nbytes
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(array.nbytes, 4)))
        self.address = address.value
        contiguous = np.ascontiguousarray(array)
        call("cuMemcpyHtoD_v2", address, contiguous.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes))

    def __del__(self):
        _driver.cuMemFree_v2(ctypes.c_uint64(self.address))

    def numpy(self):
        call("cuCtxSynchronize")
        array = np.empty(self.shape, self.dtype)
        call(
            "cuMemcpyDtoH_v2",
            array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(self.address),
            ctypes.c_size_t(self.size),
        )
        return array


class Interface(DeviceArray):
    @property
    def __cuda_array_interface__(self):
        return dict(data=(self.address, False), shape=self.shape, typestr=self.dtype.str, strides=None, version=3)


class _Tensor(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Dlpack(DeviceArray):
    def __dlpack_device__(self):
        return 2, self.index

    def __dlpack__(self, stream=None):
        assert stream == -1  # nobody waits
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        code = {"f": 2, "i": 0, "b": 6}[self.dtype.kind]
        self.kept = _Tensor(self.address, 2, self.index, len(self.shape), code, self.dtype.itemsize * 8, 1, shape)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.kept), b"dltensor", None)

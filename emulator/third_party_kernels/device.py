"""A GPU through NVIDIA's cuda-bindings, for programs that bring their kernels as PTX: memory, launches, tensor maps."""

import ctypes
import os

import numpy as np
from cuda.bindings import driver as cu


def ok(result):
    """The results of a call that must succeed."""
    if result[0] != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver says {result[0].name}")
    return result[1] if len(result) == 2 else result[1:]


class Array:
    """Device memory with a numpy type and shape; never written elements are NaN (or all bits set)."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(np.atleast_1d(shape)), np.dtype(dtype)
        self.bytes = max(1, int(np.prod(self.shape)) * self.dtype.itemsize)
        self.at = ok(cu.cuMemAlloc(self.bytes))
        ok(cu.cuMemsetD8(self.at, 0xFF, self.bytes))

    @classmethod
    def of(cls, values):
        """A copy of a numpy array."""
        values = np.ascontiguousarray(values)
        result = cls(values.shape, values.dtype)
        ok(cu.cuMemcpyHtoD(result.at, values.ctypes.data, values.nbytes))
        return result

    def host(self):
        """A copy as a numpy array."""
        values = np.empty(self.shape, self.dtype)
        ok(cu.cuMemcpyDtoH(values.ctypes.data, self.at, values.nbytes))
        return values

    def described(self, box, swizzle):
        """A tensor map of a matrix, as TMA reads boxes of it; swizzle: 0 to 3, as the driver counts them."""
        kind = {"float16": 6, "float32": 7}[self.dtype.name]
        room = ctypes.create_string_buffer(192)
        room.map = (ctypes.c_uint64 * 16).from_address(-(-ctypes.addressof(room) // 64) * 64)  # cuda-bindings does not align it
        wide, words = (lambda *values: (ctypes.c_uint64 * len(values))(*values)), (lambda *v: (ctypes.c_uint32 * len(v))(*v))
        rows, columns = self.shape
        status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
            ctypes.byref(room.map),
            kind,
            2,
            ctypes.c_void_p(int(self.at)),
            wide(columns, rows),
            wide(columns * self.dtype.itemsize),
            words(*reversed(box)),
            words(1, 1),
            0,
            swizzle,
            2,
            0,
        )
        if status:
            raise RuntimeError(f"cuTensorMapEncodeTiled says {cu.CUresult(status).name}")
        return room


class Device:
    """The first device, which FA_EMU_DEVICE names."""

    def __init__(self):
        ok(cu.cuInit(0))
        self.device = ok(cu.cuDeviceGet(0))
        ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(self.device))))
        attribute = cu.CUdevice_attribute
        self.multiprocessors = self.get(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self.capability = 10 * self.get(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + self.get(
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        )
        self.modules = []

    def get(self, attribute):
        """A number that describes the device."""
        return ok(cu.cuDeviceGetAttribute(attribute, self.device))

    def kernel(self, ptx, name, shared=0):
        """A kernel of a PTX text, which may have that much dynamic shared memory."""
        self.modules.append(ok(cu.cuModuleLoadData(ptx.encode() + b"\0")))
        function = ok(cu.cuModuleGetFunction(self.modules[-1], name.encode()))
        if shared > 48 * 1024:
            kind = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            ok(cu.cuFuncSetAttribute(function, kind, shared))
        return function

    def launch(self, function, grid, block, shared, arguments, cooperative=False):
        """Runs a kernel and waits. Arguments: Array, None (no address), int (32 bits), float, np.int64, tensor maps."""
        kinds = {type(None): ctypes.c_uint64, int: ctypes.c_int32, float: ctypes.c_float, np.int64: ctypes.c_int64}
        values = []
        for argument in arguments:
            if isinstance(argument, Array):
                values.append(ctypes.c_uint64(int(argument.at)))
            elif isinstance(argument, ctypes.Array):
                values.append(argument.map)
            else:
                values.append(kinds[type(argument)](argument or 0))
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        grid, block = (tuple(size) + (1, 1, 1) for size in (grid, block))
        if cooperative:
            ok(cu.cuLaunchCooperativeKernel(function, *grid[:3], *block[:3], shared, 0, ctypes.addressof(addresses)))
        else:
            ok(cu.cuLaunchKernel(function, *grid[:3], *block[:3], shared, 0, ctypes.addressof(addresses), 0))
        ok(cu.cuCtxSynchronize())


def close(name, got, wanted, tolerance):
    """Prints how far they are apart, relative to 1 + the wanted value; whether that is within the tolerance."""
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    apart = np.max(np.where(got == wanted, 0, np.abs(got - wanted) / (1 + np.abs(wanted))), initial=0)
    print(f"{name}: at most {apart:.2e} from the reference ({tolerance:.0e} allowed)")
    return bool(apart <= tolerance)


def finish(good):
    """Ends a program with the common exit status."""
    print("right" if good else "WRONG", flush=True)
    os._exit(0 if good else 1)  # without tearing Python down, which takes longer than some kernels

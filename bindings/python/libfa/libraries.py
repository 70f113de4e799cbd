"""How each library's arrays are read fastest, how a new one is made, which stream is in use. An
array's type says which library it is of; nothing is imported that the caller has not imported.
"""

import sys
from typing import Any

from . import capi, lazy
from .arrays import BY_NAME, CPU, NAMES, SIZES, Adapter, View, dtype_error, dtype_named
from .errors import InvalidArgument, Unreadable, Unsupported


class Numpy(Adapter):
    def view(self, x: Any, what: str) -> View:
        try:
            return self.capsule(x.__dlpack__(), what)
        except BufferError:  # read-only, of a type of ml_dtypes, or odd strides
            return self.interface(x.__array_interface__, x, what, CPU)

    def empty(self, like: Any, shape: tuple[int, ...], dtype: int) -> Any:
        numpy = sys.modules["numpy"]
        if dtype != capi.FA_BF16:
            return numpy.empty(shape, NAMES[dtype])
        if "ml_dtypes" not in sys.modules:
            raise InvalidArgument("out: numpy has no bfloat16; import ml_dtypes, or ask for out_dtype='float32'")
        return numpy.empty(shape, sys.modules["ml_dtypes"].bfloat16)

    def cast(self, x: Any, dtype: int, what: str) -> Any:
        return x.astype(sys.modules["ml_dtypes"].bfloat16 if dtype == capi.FA_BF16 else NAMES[dtype])


class Torch(Adapter):
    def __init__(self) -> None:
        self.dtypes: dict[Any, int] = {}  # of torch's types, as they are met

    def view(self, x: Any, what: str) -> View:
        if x.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise Unsupported(
                f"{what}: requires a gradient, which autograd does not see here; libfa.torch.attention has gradients, "
                "and torch.no_grad() does without"
            )
        if x.is_cpu:
            device = CPU
        elif x.is_cuda:
            device = (capi.FA_DEVICE_CUDA, x.device.index)
        else:
            raise Unreadable(f"{what}: lives on the device {x.device}: neither CPU nor CUDA")
        dtype = self.dtypes.get(x.dtype)
        if dtype is None:
            dtype = dtype_named(str(x.dtype)[6:], what)  # "torch.float32"
            if dtype != capi.FA_I64:  # which is not for every argument
                self.dtypes[x.dtype] = dtype
        try:
            address, shape, strides = x.data_ptr(), tuple(x.shape), x.stride()
        except RuntimeError:
            raise lazy.error(x, what) from None
        if x.is_neg() or (address == x.storage_offset() * SIZES[dtype] and 0 not in shape):  # the storage begins at 0
            return self.resolved(x, what)
        return address, dtype, shape, strides, device, True, x

    def resolved(self, x: Any, what: str) -> View:
        """The view of a copy with the values of x; nobody would see changes to it."""
        if x.is_neg():
            copy = x.resolve_neg()
        elif x._is_zerotensor() and not lazy.overrides(x):
            copy = x.clone()
        else:
            raise lazy.error(x, what)
        address, dtype, shape, strides, device, _, owner = self.view(copy, what)
        return address, dtype, shape, strides, device, False, owner

    def why_not_written(self, x: Any) -> str:
        if x.is_neg():
            return "is lazily negated (is_neg()): its memory holds the other sign; expected its resolve_neg()"
        return "is a tensor of zeros without memory; expected torch.zeros"

    def wrote(self, x: Any) -> None:
        if not x.is_inference():
            sys.modules["torch"].autograd.graph.increment_version(x)

    def empty(self, like: Any, shape: tuple[int, ...], dtype: int) -> Any:
        return like.new_empty(shape, dtype=getattr(sys.modules["torch"], NAMES[dtype]))

    def cast(self, x: Any, dtype: int, what: str) -> Any:
        return x.to(getattr(sys.modules["torch"], NAMES[dtype]))

    def stream(self, x: Any) -> int:
        return int(sys.modules["torch"].cuda.current_stream(x.device).cuda_stream) if x.is_cuda else 0


class Masked(Adapter):
    """numpy.ma's arrays: their masked elements would be attended all the same."""

    def view(self, x: Any, what: str) -> View:
        raise TypeError(
            f"{what}: is a masked array, whose mask libfa does not read; pass {what}.data, and mask= for masked keys"
        )


class Cupy(Adapter):
    def cast(self, x: Any, dtype: int, what: str) -> Any:
        return x.astype(sys.modules["ml_dtypes"].bfloat16 if dtype == capi.FA_BF16 else NAMES[dtype])

    def empty(self, like: Any, shape: tuple[int, ...], dtype: int) -> Any:
        cupy = sys.modules["cupy"]
        with like.device:
            return cupy.empty(shape, sys.modules["ml_dtypes"].bfloat16 if dtype == capi.FA_BF16 else NAMES[dtype])

    def stream(self, x: Any) -> int:
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


class Jax(Adapter):
    """Arrays of JAX never change: out is written in memory of our own, which becomes a JAX array."""

    def view(self, x: Any, what: str) -> View:
        if isinstance(x, sys.modules["jax"].core.Tracer):
            raise TypeError(f"{what}: is traced (jax.jit, vmap, grad), and has no elements yet; use libfa.jax.attention there")
        try:
            seen = super().view(x, what)
        except Unreadable:
            raise
        except Exception as error:  # of many kinds
            raise self.refused(x, what, error) from None
        return *seen[:5], False, seen[6]

    def refused(self, x: Any, what: str, error: Exception) -> InvalidArgument:
        if x.is_deleted():
            return Unreadable(f"{what}: has been deleted, as arrays are that were donated to a function of jax.jit")
        if len(x.devices()) > 1:
            return Unreadable(
                f"{what}: is on {len(x.devices())} devices, expected one; libfa.jax.attention takes it, or jax.device_get"
            )
        name = getattr(x.dtype, "name", str(x.dtype))
        return Unreadable(f"{what}: {error}") if name in BY_NAME else dtype_error(name, what)

    def why_not_written(self, x: Any) -> str:
        return "is an array of JAX, which never changes"

    def empty(self, like: Any, shape: tuple[int, ...], dtype: int) -> Any:
        if like.devices() and next(iter(like.devices())).platform != "cpu":
            raise Unsupported("q: is an array of JAX on a GPU, which libfa does not support yet; expected one on the CPU")
        numpy = sys.modules["numpy"]
        kind = sys.modules["ml_dtypes"].bfloat16 if dtype == capi.FA_BF16 else NAMES[dtype]
        count = SIZES[dtype]
        for size in shape:
            count *= size
        memory = numpy.empty(count + 64, "uint8")
        skip = -memory.__array_interface__["data"][0] % 64  # JAX takes over memory that is aligned to 64 bytes
        return memory[skip : skip + count].view(kind).reshape(shape)

    def cast(self, x: Any, dtype: int, what: str) -> Any:  # also of numpy's, which finish() makes JAX's
        return x.astype(sys.modules["ml_dtypes"].bfloat16 if dtype == capi.FA_BF16 else NAMES[dtype])

    def finish(self, out: Any) -> Any:
        return sys.modules["jax"].device_put(out, may_alias=True)


_protocols = Adapter()
_masked = Masked()
_by_library = {"numpy": Numpy(), "torch": Torch(), "cupy": Cupy(), "jaxlib": Jax(), "jax": Jax()}
_by_type: "dict[type, Adapter]" = {}


def adapter_of(x: Any) -> Adapter:
    """The adapter for x's type, by the library that defined it or one of its bases."""
    found = _by_type.get(type(x))
    if found is None:
        bases = type(x).__mro__
        libraries = [base.__module__.partition(".")[0] for base in bases if hasattr(base, "__dlpack__")]
        found = next((_by_library[name] for name in libraries if name in _by_library), _protocols)
        if any(base.__name__ == "MaskedArray" and base.__module__.startswith("numpy.") for base in bases):
            found = _masked
        _by_type[type(x)] = found
    return found


def of_torch(x: Any) -> bool:
    return isinstance(adapter_of(x), Torch)


def view(x: Any, what: str) -> View:
    """Any array's view; errors call it by the name in what."""
    return adapter_of(x).view(x, what)

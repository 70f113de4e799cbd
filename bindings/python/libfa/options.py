"""The keywords of attention() and Op for type checkers. Numbers may be of any integral or real type."""

from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, TypedDict

from .fields import Factors, Inputs, Rope, Tree

DtypeName = Literal["float32", "float16", "bfloat16"]
CodesName = Literal["int8", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "q8_0", "q4_0"]
Causal = bool | Literal["top_left"]
Layout = Literal["bshd", "bhsd"]


class SupportsDlpack(Protocol):
    @property
    def __dlpack__(self) -> Any: ...


class SupportsCudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


class SupportsArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> Any: ...


class SupportsBuffer(Protocol):
    @property
    def __buffer__(self) -> Any: ...


class DtypeObject(Protocol):
    """A dtype of numpy, ml_dtypes or torch."""

    @property
    def itemsize(self) -> int: ...


Dtype = DtypeName | DtypeObject
Array = SupportsDlpack | SupportsCudaArrayInterface | SupportsArrayInterface | SupportsBuffer
Ints = Array | list[int] | tuple[int, ...]


class CommonOptions(Inputs, total=False):
    """The keywords of both passes."""

    causal: Causal
    window: tuple[SupportsIndex, SupportsIndex]
    attention_chunk: SupportsIndex
    softcap: SupportsFloat
    softmax_scale: SupportsFloat | None
    bias_before_softcap: bool
    max_seqlen_q: SupportsIndex
    max_seqlen_k: SupportsIndex
    deterministic: bool
    batch_invariant: bool
    num_threads: SupportsIndex


class Options(CommonOptions, total=False):
    """The keywords of every attention(): libfa's, libfa.torch's, libfa.jax's."""

    block_table: Array | None
    num_splits: SupportsIndex


class LayoutOptions(Options, total=False):
    layout: Layout


class LentOptions(TypedDict, total=False):
    """Memory and threads that the caller lends, and the promise about the memory."""

    parallel_for: tuple[int, int]
    workspace: Array | None
    stream: int | None
    device_pointers: bool


class MemoryOptions(LayoutOptions, LentOptions, Factors, Tree, Rope, total=False):
    """The keywords of libfa.attention."""

    dtype_k: CodesName | None
    dtype_v: CodesName | None
    hadamard_k: bool
    hadamard_v: bool
    lse: Array | None


def unexpected(name: str) -> TypeError:
    """The error of an attention() with gradients at a keyword that it does not have."""
    elsewhere = "; libfa.attention has it, without gradients" if name in {*MemoryOptions.__annotations__, "out"} else ""
    return TypeError(f"attention() got an unexpected keyword argument {name!r}{elsewhere}")


class GradientOptions(CommonOptions, LentOptions, total=False):
    """The keywords of libfa.backward that attention() has as well."""

    layout: Layout


class _Required(TypedDict):
    head_dim: int
    dtype_q: DtypeName | int


class Desc(_Required, total=False):
    """fa_desc's fields. Types are named, or are numbers of libfa.capi."""

    device: int
    device_index: int
    dtype_kv: DtypeName | CodesName | int
    dtype_v: DtypeName | CodesName | int
    dtype_k_rope: DtypeName | int
    dtype_out: DtypeName | int
    mask: int
    head_dim_v: int
    head_dim_rope: int
    window_left: int
    window_right: int
    attention_chunk: int
    softmax_scale: float
    softcap: float
    flags: int
    num_threads: int
    parallel_for: int
    parallel_for_user: int

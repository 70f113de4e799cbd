"""fa_op as a Python object, and the cache of ops that attention() takes its own from."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from . import capi, scalars
from .arrays import NAMES, dtype_of
from .errors import Error, InvalidArgument, check
from .options import Desc

if TYPE_CHECKING:
    from typing_extensions import Unpack

_REALS = ("softmax_scale", "softcap")


class Op:
    """An attention, ready to run: its keywords are fa_desc's fields. Immutable; any number of threads may use one.

    head_dim and dtype_q are required, all others have the header's defaults. Types are named: dtype_q="float16". close(), or
    the last reference, ends it; a call that is under way in another thread is completed first. An unpickled or copied op is
    a new one, of the machine that it is made on.
    """

    __slots__ = ("handle", "_desc")

    def __init__(self, **desc: Unpack[Desc]) -> None:
        try:
            self._create(desc)
        except Error as error:  # whose keywords are fa_desc's fields
            raise type(error)(str(error).replace("desc.", "")) from None

    def _create(self, desc: Any) -> None:
        fields = capi.fa_desc()
        self.handle: Any = None
        self._desc: dict[str, Any] = {}
        for name, value in desc.items():
            if not hasattr(fields, name):
                raise TypeError(f"Op() got an unexpected keyword argument {name!r}: expected a field of fa_desc")
            convert = dtype_of if name.startswith("dtype_") else scalars.single if name in _REALS else scalars.integer
            self._desc[name] = convert(value, name)
            try:
                setattr(fields, name, self._desc[name])
            except OverflowError:
                raise InvalidArgument(f"{name}: got {value!r}, which its field of fa_desc cannot hold") from None
        status, self.handle = capi.fa_create(fields)
        check(status)

    def __repr__(self) -> str:
        fields = (
            f"{name}={NAMES.get(value, value) if name.startswith('dtype_') else value}" for name, value in self._desc.items()
        )
        return f"<libfa.Op {', '.join(fields)}: {'closed' if self.handle is None else self.kernel}>"

    def __reduce__(self) -> Any:
        self._open()
        if self._desc.get("parallel_for"):
            raise TypeError("Op: parallel_for is an address, which means nothing elsewhere; an op without it can be pickled")
        return functools.partial(Op, **self._desc), ()

    @property
    def kernel(self) -> str:
        """The name of the kernel that it runs: "cpu.avx2"."""
        return capi.fa_op_kernel_name(self._open())

    def workspace_size(self, args: "capi.fa_forward_args") -> int:
        """The bytes of workspace that forward(args) needs."""
        status, size = capi.fa_forward_workspace_size(self._open(), args)
        check(status)
        return int(size)

    def forward(self, args: "capi.fa_forward_args") -> None:
        """Computes the call of args, without the GIL. All memory that args points at must live until it returns (on CUDA:
        until its stream has finished the call)."""
        check(capi.fa_forward(self._open(), args))

    def backward_workspace_size(self, args: "capi.fa_backward_args") -> int:
        """The bytes of workspace that backward(args) needs."""
        status, size = capi.fa_backward_workspace_size(self._open(), args)
        check(status)
        return int(size)

    def backward(self, args: "capi.fa_backward_args") -> None:
        """Computes the gradients that args has tensors for; as forward() otherwise."""
        check(capi.fa_backward(self._open(), args))

    def merge_workspace_size(self, args: "capi.fa_merge_args") -> int:
        """The bytes of workspace that merge(args) needs."""
        status, size = capi.fa_merge_workspace_size(self._open(), args)
        check(status)
        return int(size)

    def merge(self, args: "capi.fa_merge_args") -> None:
        """Merges the parts of args; as forward() otherwise."""
        check(capi.fa_merge(self._open(), args))

    def append_workspace_size(self, args: "capi.fa_append_args") -> int:
        """The bytes of workspace that append(args) needs: 0 in this version."""
        status, size = capi.fa_append_workspace_size(self._open(), args)
        check(status)
        return int(size)

    def append(self, args: "capi.fa_append_args") -> None:
        """Writes new keys and values into a cache; as forward() otherwise."""
        check(capi.fa_append(self._open(), args))

    def close(self) -> None:
        """Ends the op. Using it afterwards raises InvalidArgument; closing it again does nothing."""
        self.handle = None

    def __enter__(self) -> "Op":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Any:
        if self.handle is None:
            raise InvalidArgument("op: it has been closed")
        return self.handle


@functools.lru_cache(maxsize=256)
def op_of(
    device: int,
    device_index: int,
    dtype_q: int,
    dtype_kv: int,
    dtype_out: int,
    mask: int,
    head_dim: int,
    head_dim_v: int,
    window_left: int,
    window_right: int,
    attention_chunk: int,
    softmax_scale: float,
    softcap: float,
    flags: int,
    num_threads: int,
    parallel_for: int,
    parallel_for_user: int,
    dtype_v: int = capi.FA_DTYPE_DEFAULT,
    dtype_k_rope: int = capi.FA_DTYPE_DEFAULT,
    head_dim_rope: int = 0,
) -> Op:
    """The op for these fields of fa_desc: made once, kept while it is among the last 256 used."""
    desc = locals()
    op = Op.__new__(Op)
    op._create(desc)
    return op


def clear_cache() -> None:
    """Drops the ops cached for attention(): the next call creates a new one and reads the environment again."""
    op_of.cache_clear()

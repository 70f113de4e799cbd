"""Errors of libfa.jax as libfa's own: those of shapes and settings when a call is traced, those of lengths when it has run."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy

from . import capi, errors, jax_arrays
from .arrays import BY_NAME, CPU, contiguous
from .op import op_of
from .words import in_words

_ADDRESS = 4096  # of tensors that are checked and never read
_KINDS = {
    "INVALID_ARGUMENT": errors.InvalidArgument,
    "UNIMPLEMENTED": errors.Unsupported,
    "RESOURCE_EXHAUSTED": errors.OutOfMemory,
}


class Settings(NamedTuple):
    """Numbers of a call: fa_desc's, then fa_forward_args'."""

    mask: int
    window_left: int
    window_right: int
    attention_chunk: int
    softmax_scale: float
    softcap: float
    flags: int
    num_threads: int
    max_seqlen_q: int
    max_seqlen_k: int
    num_splits: int

    def attributes(self) -> tuple[tuple[str, Any], ...]:
        """As attributes of the custom call."""
        items = self._asdict().items()
        return tuple((name, numpy.float32(x) if isinstance(x, float) else numpy.int64(x)) for name, x in items)


def _tensor(shape: tuple[int, ...], dtype: Any) -> Any:
    return _ADDRESS, BY_NAME[dtype.name], shape, contiguous(shape)


def _check(arrays: dict[str, Any], dtype: Any, settings: Settings) -> None:
    q, k, v = (arrays[name] for name in "qkv")
    if v.dtype != k.dtype:
        raise errors.InvalidArgument(f"v: got dtype {v.dtype}, expected k's {k.dtype}")
    batch, rows, heads, dim = q.shape
    types = (BY_NAME[x.name] for x in (q.dtype, k.dtype, dtype))
    op = op_of(*CPU, *types, settings.mask, dim, v.shape[3], *settings[1:8], 0, 0)
    args = capi.fa_forward_args()
    args.out = _tensor((batch, rows, heads, v.shape[3]), dtype)
    args.lse = _tensor((batch, heads, rows, 1), numpy.dtype("float32"))
    packed = [arrays[name].size - 1 for name in ("cu_seqlens_q", "cu_seqlens_k") if name in arrays]
    args.num_seqs = max(packed, default=0)
    for name, x in arrays.items():
        if name in jax_arrays.INTS:
            count = (packed or [batch])[0] + name.startswith("cu_")
            if x.shape != (count,) or count < name.startswith("cu_"):
                expected = "(sequences + 1,)" if name == "cu_seqlens_q" else f"({count},)"
                raise errors.InvalidArgument(f"{name}: got shape {x.shape}, expected {expected}")
            setattr(args, name, _ADDRESS)
        else:
            setattr(args, name, _tensor(x.shape, x.dtype))
    for name in settings._fields[8:]:
        try:
            setattr(args, name, getattr(settings, name))
        except OverflowError:
            text = f"{name}: got {getattr(settings, name)}, which its field of fa_forward_args cannot hold"
            raise errors.InvalidArgument(text) from None
    errors.check(capi.fa_forward_workspace_size(op.handle, args)[0])


def check(arrays: dict[str, Any], dtype: Any, settings: Settings) -> None:
    """Refuses what the library would, by the caller's names, of arrays that need not have elements yet."""
    try:
        _check(arrays, dtype, settings)
    except errors.Error as error:
        raise type(error)(in_words(str(error), arrays)) from None


def eager(function: Any, arrays: dict[str, Any]) -> Any:
    """function's results for arrays with elements."""
    try:
        results = function(*arrays.values())
        if any(name in jax_arrays.INTS or name == "block_table" for name in arrays):
            jax.block_until_ready(results)  # so that wrong lengths are the error of this call
        return results
    except RuntimeError as error:
        for name, x in arrays.items():
            if isinstance(x, jax.Array) and x.is_deleted():
                text = f"{name}: has been deleted, as arrays are that were donated to a function of jax.jit"
                raise errors.Unreadable(text) from None
        kind, _, text = str(error).partition(": ")
        if isinstance(error, jax.errors.JaxRuntimeError) and kind in _KINDS:
            raise _KINDS[kind](text) from None
        raise


def world_of(axis_name: Any) -> int:
    """The number of devices along an axis of the shard_map around a call."""
    try:
        return int(jax.lax.axis_size(axis_name))
    except NameError:
        raise errors.InvalidArgument(
            f"axis_name: got {axis_name!r}, which is no axis of a jax.shard_map around this call"
        ) from None

"""The shapes that fa_args asks for, from views of the shapes that callers have, and what can be checked on the way."""

import array
import math
from typing import Any

from . import capi
from .arrays import CPU, NAMES, SIZES, View, contiguous, device_name
from .errors import InvalidArgument
from .libraries import view

Tensor = tuple[int, int, tuple[int, ...], tuple[int, ...]]

_ARRAYS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx", "q_offset")


def require_device(seen: View, what: str, device: tuple[int, int]) -> None:
    if seen[4] != device:
        raise InvalidArgument(f"{what}: lives on {device_name(seen[4])}, expected q's {device_name(device)}")


def written(x: Any, what: str, device: tuple[int, int]) -> View:
    """The view of an array that is written."""
    seen = view(x, what)
    require_device(seen, what, device)
    if not seen[5]:
        raise InvalidArgument(f"{what}: is read-only, expected an array that can be written")
    return seen


def four(seen: View, what: str, heads_first: bool, packed: bool) -> Tensor:
    """(batch, sequence, heads, dim) of any layout; a packed tensor may lack its batch of 1."""
    address, dtype, shape, strides = seen[:4]
    if len(shape) == 3 and packed:
        shape, strides = (1,) + shape, (math.prod(shape),) + strides
    if len(shape) != 4:
        axes = "batch, heads, sequence, dim" if heads_first else "batch, sequence, heads, dim"
        raise InvalidArgument(f"{what}: got shape {shape}, expected ({axes}); three dimensions only with cu_seqlens")
    if heads_first:
        (b, h, s, d), (b_step, h_step, s_step, d_step) = shape, strides
        shape, strides = (b, s, h, d), (b_step, s_step, h_step, d_step)
    return address, dtype, shape, strides


def of_lse(seen: View) -> Tensor:
    """(batch, heads, rows, 1) of (batch, heads, rows), or packed of (heads, rows)."""
    address, dtype, shape, strides = seen[:4]
    if len(shape) == 2:
        shape, strides = (1,) + shape, (math.prod(shape) or 1,) + strides
    if len(shape) == 3:
        shape, strides = shape + (1,), strides + (1,)
    if len(shape) != 4:
        raise InvalidArgument(f"lse: got shape {shape}, expected (batch, heads, queries), packed (heads, rows)")
    return address, dtype, shape, strides


def aligned_right(x: Any, what: str, device: tuple[int, int]) -> Tensor:
    """(batch, heads, queries, keys): missing dimensions are repeated."""
    seen = view(x, what)
    require_device(seen, what, device)
    missing = 4 - len(seen[2])
    if missing < 0:
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected (batch, heads, queries, keys) or its last dimensions")
    return seen[0], seen[1], (1,) * missing + seen[2], (0,) * missing + seen[3]


def of_heads(x: Any, what: str, device: tuple[int, int]) -> Tensor:
    """(batch, heads, 1, 1) of (batch, heads) or (heads,)."""
    seen = view(x, what)
    require_device(seen, what, device)
    address, dtype, shape, strides = seen[:4]
    if len(shape) == 1:
        shape, strides = (1,) + shape, (0,) + strides
    if len(shape) == 2:
        shape, strides = shape + (1, 1), strides + (1, 1)
    if len(shape) != 4:
        entries = "(batch, pages per sequence)" if what == "block_table" else "(heads,) or (batch, heads)"
        raise InvalidArgument(f"{what}: got shape {shape}, expected {entries}")
    return address, dtype, shape, strides


def of_bytes(x: Any, what: str, device: tuple[int, int]) -> tuple[int, int]:
    """(address, size in bytes) of contiguous memory."""
    seen = written(x, what, device)
    if seen[3] != contiguous(seen[2]):
        raise InvalidArgument(f"{what}: got strides {seen[3]}, expected a contiguous array")
    return seen[0], math.prod(seen[2]) * SIZES[seen[1]]


def ints(x: Any, what: str, count: int, device: tuple[int, int]) -> View:
    """The view of a contiguous array of count int32."""
    seen = view(x, what)
    require_device(seen, what, device)
    if seen[1] != capi.FA_I32:
        raise InvalidArgument(f"{what}: got {NAMES[seen[1]]}, expected int32")
    if seen[2] != (count,):
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected ({count},)")
    if count > 1 and seen[3] != (1,):
        raise InvalidArgument(f"{what}: got a stride of {seen[3][0]} elements, expected a contiguous array")
    return seen


def set_arrays(args: "capi.fa_args", given: tuple[Any, ...], batch: int, device: tuple[int, int]) -> list[View]:
    """Points args at the arrays given, in the order of fa_args. Returns what must live until the call is done."""
    arrays = [array.array("i", x) if isinstance(x, (list, tuple)) and device == CPU else x for x in given]
    keep: list[View] = []
    packed = next((i for i in (0, 1) if arrays[i] is not None), None)
    if arrays[0] is not None:
        shape = view(arrays[0], "cu_seqlens_q")[2]
        if len(shape) != 1 or shape[0] < 1:
            raise InvalidArgument(f"cu_seqlens_q: got shape {shape}, expected (sequences + 1,)")
        batch = shape[0] - 1
    for index, (name, x) in enumerate(zip(_ARRAYS, arrays)):
        if x is not None:
            keep.append(ints(x, name, batch + 1 if index < 2 else batch, device))
            setattr(args, name, keep[-1][0])
    if packed is not None:
        args.num_seqs = batch
    return keep

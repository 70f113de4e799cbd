"""The shapes that fa_args asks for, from views of the shapes that callers have, and what can be checked on the way."""

import array
import math
import reprlib
from typing import Any

from . import capi
from .arrays import CPU, NAMES, SIZES, View, contiguous, device_name
from .errors import InvalidArgument
from .libraries import view
from .scalars import integer

Tensor = tuple[int, int, tuple[int, ...], tuple[int, ...]]

ARRAYS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx", "q_offset")
_NUMBERS = ("max_seqlen_q", "max_seqlen_k", "num_splits")


def require_device(seen: View, what: str, device: tuple[int, int]) -> None:
    if seen[4] != device:
        raise InvalidArgument(f"{what}: lives on {device_name(seen[4])}, expected q's {device_name(device)}")


def read(x: Any, what: str, device: tuple[int, int]) -> View:
    """The view of an array, which lives where it should."""
    seen = view(x, what)
    require_device(seen, what, device)
    return seen


def written(x: Any, what: str, device: tuple[int, int]) -> View:
    """The view of an array that is written."""
    seen = read(x, what, device)
    if not seen[5]:
        raise InvalidArgument(f"{what}: is read-only, expected an array that can be written")
    return seen


def require_heads(seen: View, what: str, heads_first: bool, packed: bool) -> None:
    """(batch, sequence, heads, dim) in any layout; a packed tensor may lack its batch of 1."""
    if len(seen[2]) != 4 and not (packed and len(seen[2]) == 3):
        axes = "batch, heads, sequence, dim" if heads_first else "batch, sequence, heads, dim"
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected ({axes}); three dimensions only with cu_seqlens")


def four(seen: View, heads_first: bool) -> Tensor:
    """(batch, sequence, heads, dim) of what require_heads() lets pass."""
    address, dtype, shape, strides = seen[:4]
    if len(shape) == 3:
        shape, strides = (1, *shape), (0, *strides)
    if heads_first:
        shape, strides = (tuple(x[i] for i in (0, 2, 1, 3)) for x in (shape, strides))
    return address, dtype, shape, strides


def of_rows(seen: View, what: str) -> Tensor:
    """(batch, heads, rows, 1) of (batch, heads, rows), packed (heads, rows)."""
    address, dtype, shape, strides = seen[:4]
    if len(shape) == 2:
        shape, strides = (1, *shape), (0, *strides)
    if len(shape) == 3:
        shape, strides = (*shape, 1), (*strides, 1)
    if len(shape) != 4:
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected (batch, heads, queries), packed (heads, rows)")
    return address, dtype, shape, strides


def lse(x: Any, device: tuple[int, int]) -> View:
    """The view of a caller's lse: (batch, heads, rows), packed (heads, rows)."""
    seen = written(x, "lse", device)
    if not 2 <= len(seen[2]) <= 4:
        raise InvalidArgument(f"lse: got shape {seen[2]}, expected (batch, heads, queries), packed (heads, rows)")
    return seen


def aligned_right(seen: View, what: str) -> Tensor:
    """(batch, heads, queries, keys): missing dimensions are repeated."""
    missing = 4 - len(seen[2])
    if missing < 0:
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected (batch, heads, queries, keys) or its last dimensions")
    return seen[0], seen[1], (1,) * missing + seen[2], (0,) * missing + seen[3]


def of_heads(seen: View, what: str) -> Tensor:
    """(batch, heads, 1, 1) of (batch, heads) or (heads,)."""
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
    seen = read(x, what, device)
    if seen[1] != capi.FA_I32:
        raise InvalidArgument(f"{what}: got {NAMES[seen[1]]}, expected int32")
    if seen[2] != (count,):
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected ({count},)")
    if count > 1 and seen[3] != (1,):
        raise InvalidArgument(f"{what}: got a stride of {seen[3][0]} elements, expected a contiguous array")
    return seen


def _array(values: Any, what: str) -> Any:
    """An array of int32 of a list or tuple."""
    try:
        return array.array("i", [integer(value, what) for value in values])
    except OverflowError:
        raise InvalidArgument(f"{what}: got {reprlib.repr(values)}, expected numbers that int32 can hold") from None


def set_numbers(args: "capi.fa_args | capi.fa_backward_args", given: tuple[Any, ...]) -> None:
    """Sets the fields of args that are numbers of the caller's, in the order of _NUMBERS."""
    for name, value in zip(_NUMBERS, given):
        number = integer(value, name)
        try:
            setattr(args, name, number)
        except OverflowError:
            raise InvalidArgument(f"{name}: got {number}, which its field of fa_args cannot hold") from None


def set_arrays(
    args: "capi.fa_args | capi.fa_backward_args", given: tuple[Any, ...], batch: int, device: tuple[int, int]
) -> list[View]:
    """Points args at the arrays given, in the order of ARRAYS. Returns what must live until the call is done."""
    arrays = [_array(x, name) if isinstance(x, (list, tuple)) and device == CPU else x for name, x in zip(ARRAYS, given)]
    keep: list[View] = []
    packed = next((i for i in (0, 1) if arrays[i] is not None), None)
    if arrays[0] is not None:
        shape = view(arrays[0], "cu_seqlens_q")[2]
        if len(shape) != 1 or shape[0] < 1:
            raise InvalidArgument(f"cu_seqlens_q: got shape {shape}, expected (sequences + 1,)")
        batch = shape[0] - 1
    for index, (name, x) in enumerate(zip(ARRAYS, arrays)):
        if x is not None:
            keep.append(ints(x, name, batch + 1 if index < 2 else batch, device))
            setattr(args, name, keep[-1][0])
    if packed is not None:
        args.num_seqs = batch
    return keep

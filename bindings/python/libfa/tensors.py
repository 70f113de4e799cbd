"""Views of a call's arguments, of the shapes that callers have, and the checks before capi.forward and capi.backward give them
the four dimensions of fa_forward_args."""

import array
import math
import reprlib
from typing import Any

from . import capi, fields
from .arrays import CPU, SIZES, View, contiguous, device_name, dtype_error, type_name
from .errors import InvalidArgument
from .libraries import adapter_of, view
from .scalars import integer

ARRAYS = tuple(fields.ARRAYS)
NUMBERS = ("max_seqlen_q", "max_seqlen_k", "num_splits")
_BOUNDS = {"max_seqlen_q": 2**63, "max_seqlen_k": 2**63, "num_splits": 2**31}


def require_device(seen: View, what: str, device: tuple[int, int], of: str = "q") -> None:
    if seen[4] != device:
        raise InvalidArgument(f"{what}: lives on {device_name(seen[4])}, expected {of}'s {device_name(device)}")


def read(x: Any, what: str, device: tuple[int, int], of: str = "q") -> View:
    """The view of an array, which lives where it should."""
    seen = view(x, what)
    require_device(seen, what, device, of)
    return seen


def widened(x: Any, what: str, device: tuple[int, int]) -> View:
    """The view of an array, of float32 where it has another type of floats."""
    seen = read(x, what, device)
    if seen[1] == capi.FA_F16 or seen[1] == capi.FA_BF16:
        return view(adapter_of(x).cast(x, capi.FA_F32, what), what)
    return seen


def narrowed(x: Any, like: Any) -> Any:
    """x, an array of float32, with the type of like."""
    dtype = view(like, "sinks")[1]
    return x if dtype == capi.FA_F32 else adapter_of(x).cast(x, dtype, "dsinks")


def written(x: Any, what: str, device: tuple[int, int], of: str = "q") -> View:
    """The view of an array that is written."""
    return writable(read(x, what, device, of), x, what, device, of)


def writable(seen: View, x: Any, what: str, device: tuple[int, int], of: str = "q") -> View:
    """The view of an array x that is written."""
    require_device(seen, what, device, of)
    if not seen[5]:
        raise InvalidArgument(f"{what}: {adapter_of(x).why_not_written(x)}")
    return seen


def require_heads(seen: View, what: str, heads_first: bool, packed: bool) -> None:
    """(batch, sequence, heads, dim) in any layout; a packed tensor may lack its batch of 1."""
    if len(seen[2]) != 4 and not (packed and len(seen[2]) == 3):
        axes = "batch, heads, sequence, dim" if heads_first else "batch, sequence, heads, dim"
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected ({axes}); three dimensions only with cu_seqlens")


def of_rows(seen: View, what: str) -> View:
    """The view of an lse or of an array of its shape: (batch, heads, rows), packed (heads, rows)."""
    if not 2 <= len(seen[2]) <= 4:
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected (batch, heads, queries), packed (heads, rows)")
    return seen


def of_scores(seen: View, what: str) -> View:
    """The view of a bias or a mask, whose missing dimensions are repeated."""
    if len(seen[2]) > 4:
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected (batch, heads, queries, keys) or its last dimensions")
    return seen


def of_heads(seen: View, what: str) -> View:
    """The view of (batch, heads) or (heads,), or of a block table."""
    if len(seen[2]) not in (1, 2, 4):
        entries = "(batch, pages per sequence)" if what == "block_table" else "(heads,) or (batch, heads)"
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected {entries}")
    return seen


def of_factors(seen: View, what: str) -> View:
    """The view of scales or zeros of k or v."""
    if len(seen[2]) not in (3, 4):
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected the dimensions of {what[0]}, each of which may be 1")
    return seen


def of_tree(seen: View, what: str) -> View:
    """The view of the bits or of the depths of a tree of new tokens."""
    dimensions, shape = (
        ((2, 3, 4), "(batch, heads, queries, words)") if what == "tree_mask" else ((1, 2, 4), "(batch, queries)")
    )
    if len(seen[2]) not in dimensions:
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected {shape} or its last dimensions")
    return seen


def of_keys(seen: View, what: str) -> View:
    """The view of the second part of keys."""
    if len(seen[2]) not in (3, 4):
        raise InvalidArgument(f"{what}: got shape {seen[2]}, expected k's, with the head dimension that k lacks")
    return seen


_CHECKS = {name: of_scores if rules.form == "scores" else of_heads for name, rules in fields.TENSORS.items()}
_READERS = {name: widened if rules.type == "f32" else read for name, rules in fields.TENSORS.items()}


def optional(given: tuple[Any, ...], device: tuple[int, int]) -> "tuple[View | None, ...]":
    """The views of the inputs that fields.TENSORS names, 16-bit floats made float32 where that is the type; None stays None."""
    return tuple(
        None if x is None else _CHECKS[name](_READERS[name](x, name, device), name)
        for name, x in zip(fields.TENSORS, given, strict=True)
    )


def optional_of_forward(given: tuple[Any, ...], device: tuple[int, int]) -> "tuple[View | None, ...]":
    """The optional inputs of both passes, and behind them those of fields.QUANTISED, fields.TREE and fields.ROPE."""
    count = len(fields.TENSORS)
    checks = dict.fromkeys(fields.QUANTISED, of_factors) | dict.fromkeys(fields.TREE, of_tree)
    checks |= dict.fromkeys(fields.ROPE, of_keys)
    return optional(given[:count], device) + tuple(
        None if x is None else check(read(x, name, device), name)
        for (name, check), x in zip(checks.items(), given[count:], strict=True)
    )


def of_bytes(seen: View, what: str) -> tuple[int, int]:
    """(address, size in bytes) of contiguous memory."""
    if seen[3] != contiguous(seen[2]):
        raise InvalidArgument(f"{what}: got strides {seen[3]}, expected a contiguous array")
    return seen[0], math.prod(seen[2]) * SIZES[seen[1]]


def ints(x: Any, what: str, count: int, device: tuple[int, int]) -> View:
    """The view of a contiguous array of count int32."""
    seen = read(x, what, device)
    if seen[1] != capi.FA_I32:
        raise dtype_error(type_name(x, seen[1]), what)
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


def array_of(x: Any, what: str, count: int, device: tuple[int, int]) -> "View | None":
    """The view of count int32, which a list or a tuple may hold on the CPU."""
    if x is None:
        return None
    if device == CPU and isinstance(x, (list, tuple)):
        x = _array(x, what)
    return ints(x, what, count, device)


def rest(
    arrays: tuple[Any, ...], numbers: tuple[Any, ...], workspace: Any, stream: int, batch: int, device: tuple[int, int]
) -> "tuple[tuple[int, ...], list[View]]":
    """The arguments of capi.forward and capi.backward after the tensors, of the arrays in the order of ARRAYS and the numbers
    in the order of NUMBERS, and the views that must live until the call is done."""
    num_seqs, keep, addresses = 0, [], []
    if arrays[0] is not None or arrays[1] is not None:
        num_seqs = batch
    if arrays[0] is not None:
        if device == CPU and isinstance(arrays[0], (list, tuple)):
            arrays = (_array(arrays[0], ARRAYS[0]), *arrays[1:])
        shape = view(arrays[0], ARRAYS[0])[2]
        if len(shape) != 1 or shape[0] < 1:
            raise InvalidArgument(f"cu_seqlens_q: got shape {shape}, expected (sequences + 1,)")
        num_seqs = batch = shape[0] - 1
    for name, x in zip(ARRAYS, arrays):
        if x is None:
            addresses.append(0)
            continue
        if device == CPU and isinstance(x, (list, tuple)):
            x = _array(x, name)
        keep.append(ints(x, name, batch + fields.ARRAYS[name], device))
        addresses.append(keep[-1][0])
    size = 0
    if workspace is not None:
        keep.append(written(workspace, "workspace", device))
        workspace, size = of_bytes(keep[-1], "workspace")
    return (*addresses, num_seqs, *(_number(x, name) for x, name in zip(numbers, NUMBERS)), workspace or 0, size, stream), keep


def _number(value: Any, name: str) -> int:
    number = value if type(value) is int else integer(value, name)
    if not -_BOUNDS[name] <= number < _BOUNDS[name]:
        raise InvalidArgument(f"{name}: got {number}, which its field of fa_forward_args cannot hold")
    return number

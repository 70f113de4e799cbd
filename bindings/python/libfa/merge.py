"""libfa.merge: fa_merge on arrays of any library."""

from __future__ import annotations

import re
from typing import Any, Sequence, SupportsIndex

from . import capi, scalars, tensors
from .arrays import CPU, NAMES, dtype_error, dtype_of, type_name
from .errors import Error, InvalidArgument, check
from .libraries import adapter_of, view
from .op import op_of
from .options import Array, Dtype, Layout
from .words import in_words


def merge(
    outs: Sequence[Array],
    lses: Sequence[Array],
    *,
    mask: Array | None = None,
    base_2: bool = False,
    out: Array | None = None,
    out_dtype: Dtype | None = None,
    return_lse: bool = False,
    lse: Array | None = None,
    layout: Layout = "bshd",
    num_threads: SupportsIndex = 0,
    parallel_for: tuple[int, int] = (0, 0),
    stream: int | None = None,
) -> Any:
    """Attention over all keys, of results over parts of them: outs and lses as attention(..., return_lse=True) returned them.

    outs         1 to 32 arrays (batch, sequence, heads, dim), in the order in which they are merged; packed sequences may leave out
                 the batch of 1. They may differ in type (float32, float16, bfloat16) and strides
    lses         as many, float32 (batch, heads, sequence), packed (heads, rows)
    mask         bool (batch or 1, heads or 1, sequence), packed (heads or 1, rows); False: the row of outs[0] alone
    base_2       lses, read or written, are logarithms to base 2
    out, out_dtype   as attention() has them; None: a new array of the kind and type of outs[0]. out may be outs[0] itself
    return_lse, lse  also the log-sum-exp over all keys; lse may be lses[0] itself
    layout, num_threads, parallel_for, stream    as attention() has them

    A part whose lse is -inf counts for nothing, whatever it holds. Returns out, or (out, lse). Raises as attention() does.
    """
    outs, lses = tuple(outs), tuple(lses)
    if not 1 <= len(outs) <= capi.FA_MAX_PARTS or len(lses) != len(outs):
        raise InvalidArgument(
            f"outs and lses: got {len(outs)} and {len(lses)} arrays, expected as many of each, 1 to {capi.FA_MAX_PARTS}"
        )
    if layout != "bshd" and layout != "bhsd":
        raise InvalidArgument(f"layout: got {layout!r}, expected 'bshd' or 'bhsd'")
    heads_first = layout == "bhsd"
    adapter = adapter_of(outs[0])
    first = adapter.view(outs[0], "outs[0]")
    device, shape = first[4], first[2]
    packed = len(shape) == 3
    seen = tuple(tensors.read(x, f"outs[{i}]", device, "outs[0]") for i, x in enumerate(outs))
    for i, part in enumerate(seen):
        tensors.require_heads(part, f"outs[{i}]", heads_first, packed)
    sums = tuple(tensors.of_rows(tensors.read(x, f"lses[{i}]", device, "outs[0]"), f"lses[{i}]") for i, x in enumerate(lses))

    result, given_lse = out, lse is not None
    if out is None:
        result = adapter.empty(outs[0], shape, first[1] if out_dtype is None else dtype_of(out_dtype, "out_dtype"))
        seen_out = view(result, "out")
    else:
        seen_out = tensors.written(out, "out", device, "outs[0]")
        tensors.require_heads(seen_out, "out", heads_first, packed)
        if out_dtype is not None and dtype_of(out_dtype, "out_dtype") != seen_out[1]:
            raise InvalidArgument(f"out_dtype: got {out_dtype}, expected out's {NAMES[seen_out[1]]}")
    seen_lse = seen_mask = None
    if given_lse:
        seen_lse = tensors.of_rows(tensors.written(lse, "lse", device, "outs[0]"), "lse")
    elif return_lse:
        rows, heads = (shape[-2], shape[-3]) if heads_first else (shape[-3], shape[-2])
        lse = adapter.empty(outs[0], (heads, rows) if packed else (shape[0], heads, rows), capi.FA_F32)
        seen_lse = view(lse, "lse")
    if mask is not None:
        seen_mask = tensors.of_rows(tensors.read(mask, "mask", device, "outs[0]"), "mask")
        if seen_mask[1] != capi.FA_BOOL:
            raise dtype_error(type_name(mask, seen_mask[1]), "mask")

    queue = 0 if device == CPU else adapter.stream(outs[0]) if stream is None else stream
    try:
        op = op_of(
            *device,
            first[1],
            first[1],
            seen_out[1],
            capi.FA_MASK_NONE,
            shape[-1],
            shape[-1],
            -1,
            -1,
            0,
            0.0,
            0.0,
            0,
            scalars.integer(num_threads, "num_threads"),
            *parallel_for,
        )
        flags = capi.FA_MERGE_BASE_2 if base_2 else 0
        status = capi.merge(op.handle, seen, sums, seen_out, seen_lse, seen_mask, heads_first, flags, queue)
        if status:
            check(status)
    except Error as error:
        named = {f"outs[{i}]": x for i, x in enumerate(outs)} | {f"lses[{i}]": x for i, x in enumerate(lses)}
        text = in_words(str(error), named | dict(out=out, lse=lse, mask=mask))
        raise type(error)(re.sub(r"\bq (?=has )", "outs[0] ", text)) from None
    if out is None:
        result = adapter.finish(result)
    else:
        adapter_of(out).wrote(out)
    if given_lse:
        adapter_of(lse).wrote(lse)
    return (result, lse if given_lse else adapter.finish(lse)) if return_lse else result

"""libfa.append: fa_append on arrays of any library."""

from __future__ import annotations

from typing import Any, SupportsIndex

from . import capi, fields, quantised, scalars, tensors
from .arrays import CPU, View
from .errors import Error, InvalidArgument, check
from .libraries import adapter_of, view
from .op import op_of
from .options import Array, CodesName, Ints
from .words import in_words

_DIMENSIONS = {"rows": (3, 4), "places": (1, 2), "table": (2, 2), "pages": (2, 2), "factors": (4, 4)}
_OWNERS = {"desc.head_dim": "k_cache", "desc.head_dim_v": "v_cache", "as k_cache": "k_cache", "heads, as k": "k"}
_OWNERS |= {"sequences, as k": "k", "new tokens, as k": "k"}
_WRITTEN = ("k_cache", "v_cache", "k_rope_cache", "q_out")
_CODES = ("k_cache", "v_cache")


def append(
    k: Array,
    v: Array | None,
    k_cache: Array,
    v_cache: Array | None,
    *,
    k_scale: Array | None = None,
    v_scale: Array | None = None,
    k_zero: Array | None = None,
    v_zero: Array | None = None,
    compute_scales: bool = False,
    dtype_k: CodesName | None = None,
    dtype_v: CodesName | None = None,
    k_rope: Array | None = None,
    k_rope_cache: Array | None = None,
    q: Array | None = None,
    q_out: Array | None = None,
    rotary_cos: Array | None = None,
    rotary_sin: Array | None = None,
    rotary_interleaved: bool = False,
    rotary_tail: bool = False,
    hadamard_k: bool = False,
    hadamard_v: bool = False,
    device_pointers: bool = False,
    positions: Array | None = None,
    q_positions: Array | None = None,
    slot_mapping: Array | None = None,
    block_table: Array | None = None,
    cu_seqlens_new: Ints | None = None,
    seqused_new: Ints | None = None,
    cache_seqlens: Ints | None = None,
    leftpad_k: Ints | None = None,
    kv_batch_idx: Ints | None = None,
    max_seqlen_new: SupportsIndex = 0,
    num_threads: SupportsIndex = 0,
    parallel_for: tuple[int, int] = (0, 0),
    stream: int | None = None,
) -> Any:
    """Writes new keys and values into a cache, in its type, rotated where the call says so, as fa.h defines it.

    k, v (batch, new tokens, kv heads, dim), or of one sequence and packed (tokens, kv heads, dim); k_cache, v_cache (batch,
    rows, kv heads, dim), or pages (pages, page size, kv heads, dim); v and v_cache None: keys alone. Any strides: a cache
    with heads before rows is its transposed view.

    k_scale, v_scale, k_zero, v_zero    of quantised caches, whose codes are those of x / scale + zero: (batch, rows, kv heads, groups)
                        or of pages, each may be 1
    compute_scales      True: they are written, for each new token, head and group, from the largest of its numbers
    dtype_k, dtype_v    the type of codes in bytes, as those of attention(); None: that of the array
    k_rope, k_rope_cache    the last elements of keys where k and k_cache lack them, as those of attention()
    cache_seqlens       the row of each sequence's first new token, int32; None: 0
    block_table         pages of each sequence, int32 (batch, pages per sequence)
    slot_mapping        the place of each token, page * page size + row, negative: skipped; int32 or int64, (batch, tokens) or
                        (tokens,)
    cu_seqlens_new, seqused_new, leftpad_k, kv_batch_idx    int32, one a sequence (cu_seqlens_new: one more)
    rotary_cos, rotary_sin    (positions, rotary dim / 2); k is rotated on its way, and q, which is returned
    rotary_interleaved, rotary_tail    pairs are neighbours; the last elements of a row have them
    hadamard_k, hadamard_v    keys, after the rotary embedding, and values are rotated by a Hadamard matrix, so that a few large
                        channels cost the others no precision; attention() needs the same keywords then
    positions, q_positions    rows of the tables, int32 or int64, shaped as slot_mapping; None: places in the sequence
    q, q_out            (batch, queries, heads, dim), and where the rotated ones are written: None: a new array; q itself may be
                        given
    device_pointers, num_threads, parallel_for, stream    as those of attention()

    Returns the rotated q, or None. Raises as attention() does.
    """
    adapter = adapter_of(k)
    device = adapter.view(k, "k")[4]
    result = q_out
    if q is not None and q_out is None:
        seen = adapter_of(q).view(q, "q")
        result = adapter_of(q).empty(q, seen[2], seen[1])
    given = dict(k=k, v=v, block_table=block_table, k_cache=k_cache, v_cache=v_cache, q=q, q_out=result)
    given.update(rotary_cos=rotary_cos, rotary_sin=rotary_sin, positions=positions, q_positions=q_positions)
    given.update(k_rope=k_rope, k_rope_cache=k_rope_cache)
    given.update(slot_mapping=slot_mapping, k_scale=k_scale, v_scale=v_scale, k_zero=k_zero, v_zero=v_zero)
    written = _WRITTEN + (tuple(fields.QUANTISED) if compute_scales else ())
    codes = dict(k_cache=dtype_k, v_cache=dtype_v)
    views: dict[str, View | None] = dict.fromkeys(fields.APPEND_TENSORS)
    views["k"] = new = _view(k, "k", "rows", device)
    views["k_cache"] = cache = _view(k_cache, "k_cache", "rows", device, True, dtype_k)
    for name, form in fields.APPEND_TENSORS.items():
        if views[name] is None and given[name] is not None:
            views[name] = _view(given[name], name, form, device, name in written, codes.get(name))
    arrays = dict(cu_seqlens_new=cu_seqlens_new, seqused_new=seqused_new, cache_seqlens=cache_seqlens)
    arrays.update(leftpad_k=leftpad_k, kv_batch_idx=kv_batch_idx)
    batch, sequences = new[2][0] if len(new[2]) == 4 else 1, 0
    if cu_seqlens_new is not None:
        if isinstance(cu_seqlens_new, (list, tuple)):
            count = len(cu_seqlens_new)
        else:
            count = view(cu_seqlens_new, "cu_seqlens_new")[2][0]
        batch = sequences = max(count - 1, 0)
    keep, addresses = [], []
    for name, more in fields.APPEND_ARRAYS.items():
        seen_array = tensors.array_of(arrays[name], name, batch + more, device)
        keep.append(seen_array)
        addresses.append(0 if seen_array is None else seen_array[0])
    queue = 0 if device == CPU else adapter.stream(k) if stream is None else stream
    flags = capi.FA_APPEND_ROTARY_INTERLEAVED if rotary_interleaved else 0
    flags |= capi.FA_APPEND_ROTARY_TAIL if rotary_tail else 0
    flags |= capi.FA_APPEND_COMPUTE_SCALES if compute_scales else 0
    rotations = capi.FA_FLAG_HADAMARD_K if hadamard_k else 0
    rotations |= capi.FA_FLAG_HADAMARD_V if hadamard_v else 0
    promises = capi.FA_FLAG_DEVICE_POINTERS if device_pointers else 0
    bound = scalars.integer(max_seqlen_new, "max_seqlen_new")
    if not -(2**63) <= bound < 2**63:
        raise InvalidArgument(f"max_seqlen_new: got {bound}, which its field of fa_append_args cannot hold")

    rotated, values, rope = views["q_out"], views["v_cache"], views["k_rope_cache"]
    try:
        op = op_of(
            *device,
            (rotated or new)[1],
            cache[1],
            capi.FA_DTYPE_DEFAULT,
            capi.FA_MASK_NONE,
            cache[2][-1] + (rope[2][-1] if rope else 0),
            (values or cache)[2][-1],  # keys that hold the values
            -1,
            -1,
            0,
            0.0,
            0.0,
            rotations | promises,
            scalars.integer(num_threads, "num_threads"),
            *parallel_for,
            values[1] if values else capi.FA_DTYPE_DEFAULT,
            *((rope[1], rope[2][-1]) if rope else (capi.FA_DTYPE_DEFAULT, 0)),
        )
        status = capi.append(op.handle, tuple(views.values()), (*addresses, sequences, bound, flags, queue))
        if status:
            check(status)
    except Error as error:
        raise type(error)(in_words(str(error), given, _OWNERS)) from None
    del keep
    for name in written:
        if given[name] is not None and (name != "q_out" or q_out is not None):
            adapter_of(given[name]).wrote(given[name])
    return result if q is None or q_out is not None else adapter_of(q).finish(result)


def _view(x: Any, name: str, form: str, device: tuple[int, int], written: bool = False, codes: str | None = None) -> View:
    """codes: the type of a cache whose array does not have it."""
    if name in _CODES:
        seen = tensors.writable(quantised.read(x, name, codes), x, name, device)
    else:
        seen = (tensors.written if written else tensors.read)(x, name, device)
    least, most = _DIMENSIONS[form] if name not in _CODES else (4, 4)
    if not least <= len(seen[2]) <= most:
        raise InvalidArgument(f"{name}: got shape {seen[2]}, expected {_EXPECTED[form]}")
    return seen


_EXPECTED = {
    "rows": "(batch, rows, heads, dim), or of new tokens that are packed (tokens, heads, dim)",
    "places": "(batch, tokens) or (tokens,)",
    "table": "(positions, rotary dim / 2)",
    "pages": "(batch, pages per sequence)",
    "factors": "the four dimensions of the cache, each of which may be 1",
}

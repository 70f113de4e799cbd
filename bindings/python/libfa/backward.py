"""libfa.backward: fa_backward on arrays of any library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import capi, fields, scalars, tensors
from .arrays import CPU, NAMES, Adapter, View, type_name
from .errors import Error, InvalidArgument, check
from .libraries import adapter_of, view
from .op import op_of
from .options import Array, GradientOptions
from .words import in_words

if TYPE_CHECKING:
    from typing_extensions import Unpack

_BITS = {
    "dq": capi.FA_ACCUMULATE_DQ,
    "dk": capi.FA_ACCUMULATE_DK,
    "dv": capi.FA_ACCUMULATE_DV,
    "dbias": capi.FA_ACCUMULATE_DBIAS,
    "dsinks": capi.FA_ACCUMULATE_DSINKS,
}
_AT_REST = {*tensors.ARRAYS, "max_seqlen_q", "max_seqlen_k", "workspace"}
# Where one of these is given, there may be rows that no sequence uses.
_PARTIAL = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx")


class Gradients(NamedTuple):
    """The results of backward(); None for gradients that were not asked for."""

    dq: Any
    dk: Any
    dv: Any
    dbias: Any
    dsinks: Any


def backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    dout: Any,
    *,
    dlse: Array | None = None,
    delta: Array | None = None,
    dq: Array | bool = True,
    dk: Array | bool = True,
    dv: Array | bool = True,
    dbias: Array | bool = False,
    dsinks: Array | bool = False,
    accumulate: tuple[str, ...] | list[str] | set[str] | frozenset[str] = (),
    **options: Unpack[GradientOptions],
) -> Gradients:
    """The gradients of libfa.attention; the mathematics is fa.h's.

    q, k, v and the keywords of attention() are given as attention() had them, out and lse as it returned them.

    dout, dlse      the gradients of out and, None: 0, of lse; shaped as these, any strides
    delta           the dot product of dout and out of each row, shaped as lse, float32; out may then be None
    dq, dk, dv, dbias, dsinks
                    True: a new array, shaped as q, k, v, bias or sinks and of its type; False: not computed; an array,
                    float32, float16 or bfloat16: written there. dbias: dimensions of 1 are summed over
    accumulate      names of those, ("dk", "dv"), that are added to the contents of the array given; float32 alone

    lse and out, or delta, may be of more keys than k holds (ring attention): the gradients are those of these keys. New
    arrays are 0 in rows that no sequence uses, and arrays given keep theirs. Paged keys have no gradient (block_table).

    Returns (dq, dk, dv, dbias, dsinks). Raises as attention() does.
    """
    given: dict[str, Any] = dict(options)
    for name in given:
        if name not in GradientOptions.__annotations__:
            raise TypeError(f"backward() got an unexpected keyword argument {name!r}")
    layout = given.get("layout", "bshd")
    if layout not in ("bshd", "bhsd"):
        raise InvalidArgument(f"layout: got {layout!r}, expected 'bshd' or 'bhsd'")
    adapter = adapter_of(q)
    device = adapter.view(q, "q")[4]
    packed = {name: given.get(f"cu_seqlens_{name}") is not None for name in "qk"}
    heads_first = layout == "bhsd"

    def heads(x: Any, name: str, of: str, seen: View | None = None) -> View:
        seen = seen or tensors.read(x, name, device)
        if len(seen[2]) != 4:
            tensors.require_heads(seen, name, heads_first, packed[of])
        return seen

    seen_q, seen_k, seen_v = heads(q, "q", "q"), heads(k, "k", "k"), heads(v, "v", "k")
    if seen_v[1] != seen_k[1]:
        raise InvalidArgument(f"v: got {type_name(v, seen_v[1])}, expected k's {NAMES[seen_k[1]]}")
    seen_out = None if out is None else heads(out, "out", "q")
    seen_lse = tensors.of_rows(tensors.read(lse, "lse", device), "lse")
    read = (seen_q, seen_k, seen_v, seen_out, seen_lse, heads(dout, "dout", "q"))
    constant = (
        None if dlse is None else tensors.of_rows(tensors.read(dlse, "dlse", device), "dlse"),
        None if delta is None else tensors.of_rows(tensors.read(delta, "delta", device), "delta"),
        *tensors.optional(tuple(given.get(name) for name in fields.TENSORS), device),
    )

    asked = dict(dq=dq, dk=dk, dv=dv, dbias=dbias, dsinks=dsinks)
    zeroed = any(given.get(name) is not None for name in _PARTIAL)
    like = (q, k, v, given.get("bias"), given.get("sinks"))
    results: list[Any] = []
    wanted: list[View | None] = []
    for (name, x), of in zip(asked.items(), like):
        if x is None or x is False:
            results.append(None)
            wanted.append(None)
            continue
        results.append(_new(adapter, q, name, of, zeroed) if x is True else x)
        seen = view(results[-1], name) if x is True else tensors.written(x, name, device)
        if name == "dbias":
            tensors.of_scores(seen, name)
        elif name == "dsinks":
            tensors.of_heads(seen, name)
        else:
            heads(x, name, "q" if name == "dq" else "k", seen)
        wanted.append(seen)

    bits = _bits(accumulate, asked) if accumulate else 0
    rest = keep = None
    if bits or zeroed or device != CPU or not _AT_REST.isdisjoint(given):
        stream = given.get("stream")
        queue = 0 if device == CPU else adapter.stream(q) if stream is None else stream
        numbers = (given.get("max_seqlen_q", 0), given.get("max_seqlen_k", 0), bits)
        arrays = tuple(given.get(name) for name in tensors.ARRAYS)
        rest, keep = tensors.rest(arrays, numbers, given.get("workspace"), queue, seen_q[2][0], device)

    try:
        op = op_of(
            *device,
            seen_q[1],
            seen_k[1],
            capi.FA_DTYPE_DEFAULT if seen_out is None else seen_out[1],
            scalars.mask_of(given.get("causal", False)),
            seen_q[2][-1],
            seen_v[2][-1],
            *scalars.pair(given.get("window", (-1, -1)), "window"),
            scalars.integer(given.get("attention_chunk", 0), "attention_chunk"),
            scalars.scale(given.get("softmax_scale"), "softmax_scale"),
            scalars.single(given.get("softcap", 0.0), "softcap"),
            (0 if given.get("deterministic", True) else capi.FA_FLAG_NONDETERMINISTIC)
            | (capi.FA_FLAG_BATCH_INVARIANT if given.get("batch_invariant") else 0)
            | (capi.FA_FLAG_BIAS_BEFORE_SOFTCAP if given.get("bias_before_softcap") else 0)
            | (capi.FA_FLAG_DEVICE_POINTERS if given.get("device_pointers") else 0),
            scalars.integer(given.get("num_threads", 0), "num_threads"),
            *given.get("parallel_for", (0, 0)),
        )
        status = capi.backward(op.handle, (*read, *wanted, *constant), heads_first, rest)
        if status:
            check(status)
    except Error as error:
        raise type(error)(in_words(str(error), {**given, **asked, **dict(q=q, k=k, v=v, out=out, dout=dout)})) from None
    del keep
    for i, (name, x) in enumerate(asked.items()):
        if x is True:
            if name == "dsinks":
                results[i] = tensors.narrowed(results[i], given["sinks"])
            results[i] = adapter.finish(results[i])
        elif results[i] is not None:
            adapter_of(x).wrote(x)
    return Gradients(*results)


def _new(adapter: Adapter, q: Any, name: str, like: Any, zeroed: bool) -> Any:
    """A gradient that the caller has no array for, of q's kind."""
    if like is None:
        raise InvalidArgument(f"{name}: got True, expected {name[1:]} to be given, whose gradient it is; False works")
    seen = view(like, name[1:])
    dtype = capi.FA_F32 if name == "dsinks" else seen[1]  # as fa.h has it
    return (adapter.zeros if zeroed else adapter.empty)(q, seen[2], dtype)


def _bits(accumulate: Any, asked: dict[str, Any]) -> int:
    """fa_backward_args.accumulate."""
    bits = 0
    for name in (accumulate,) if isinstance(accumulate, str) else accumulate:
        if name not in _BITS:
            raise InvalidArgument(f"accumulate: got {name!r}, expected some of {', '.join(_BITS)}")
        if asked[name] is None or isinstance(asked[name], bool):
            raise InvalidArgument(f"accumulate: got {name!r}, expected {name} to be an array, which the gradient is added to")
        bits |= _BITS[name]
    return bits

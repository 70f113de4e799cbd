"""libfa.backward: fa_backward on arrays of any library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import capi, scalars, tensors
from .arrays import CPU, NAMES, Adapter, View
from .errors import InvalidArgument, check
from .libraries import adapter_of, view
from .op import op_of
from .options import Array, GradientOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

_BITS = {
    "dq": capi.FA_ACCUMULATE_DQ,
    "dk": capi.FA_ACCUMULATE_DK,
    "dv": capi.FA_ACCUMULATE_DV,
    "dbias": capi.FA_ACCUMULATE_DBIAS,
    "dsinks": capi.FA_ACCUMULATE_DSINKS,
}
_READ = ("bias", "mask", "alibi_slopes", "sinks")
# Where one of these is given, there may be rows that no sequence uses.
_PARTIAL = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx")


class Gradients(NamedTuple):
    """What backward() computed; None for what was not asked for."""

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
    accumulate      names of those, ("dk", "dv"), that are added to what the array given holds; float32 alone

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
    device = view(q, "q")[4]
    optional = dict(out=out, dlse=dlse, delta=delta, **{name: given.get(name) for name in _READ})
    inputs = dict(q=q, k=k, v=v, lse=lse, dout=dout) | {name: x for name, x in optional.items() if x is not None}
    seen = {name: tensors.read(x, name, device) for name, x in inputs.items()}
    if seen["v"][1] != seen["k"][1]:
        raise InvalidArgument(f"v: got {NAMES[seen['v'][1]]}, expected k's {NAMES[seen['k'][1]]}")

    asked = dict(dq=dq, dk=dk, dv=dv, dbias=dbias, dsinks=dsinks)
    zeroed = any(given.get(name) is not None for name in _PARTIAL)
    like = dict(dq=q, dk=k, dv=v, dbias=given.get("bias"), dsinks=given.get("sinks"))
    results: dict[str, Any] = {}
    for name, x in asked.items():
        results[name] = x
        if x is None or isinstance(x, bool):
            results[name] = _new(adapter, q, name, like[name], zeroed) if x else None
        if results[name] is not None:
            seen[name] = tensors.written(results[name], name, device)

    args = capi.fa_backward_args()
    for name, one in seen.items():
        setattr(args, name, _tensor(one, name, given))
    arrays = tuple(given.get(name) for name in tensors.ARRAYS)
    keep = tensors.set_arrays(args, arrays, seen["q"][2][0], device)  # noqa: F841 (lives as long as the call)
    tensors.set_numbers(args, (given.get("max_seqlen_q", 0), given.get("max_seqlen_k", 0)))
    args.accumulate = _bits(accumulate, asked)
    if given.get("workspace") is not None:
        args.workspace, args.workspace_size = tensors.of_bytes(given["workspace"], "workspace", device)
    if device != CPU:
        stream = given.get("stream")
        args.stream = adapter.stream(q) if stream is None else stream

    op = op_of(
        *device,
        seen["q"][1],
        seen["k"][1],
        seen["out"][1] if out is not None else capi.FA_DTYPE_DEFAULT,
        scalars.mask_of(given.get("causal", False)),
        seen["q"][2][-1],
        seen["v"][2][-1],
        *scalars.pair(given.get("window", (-1, -1)), "window"),
        scalars.integer(given.get("attention_chunk", 0), "attention_chunk"),
        scalars.scale(given.get("softmax_scale"), "softmax_scale"),
        scalars.real(given.get("softcap", 0.0), "softcap"),
        (0 if given.get("deterministic", True) else capi.FA_FLAG_NONDETERMINISTIC)
        | (capi.FA_FLAG_BATCH_INVARIANT if given.get("batch_invariant") else 0)
        | (capi.FA_FLAG_BIAS_BEFORE_SOFTCAP if given.get("bias_before_softcap") else 0),
        scalars.integer(given.get("num_threads", 0), "num_threads"),
        *given.get("parallel_for", (0, 0)),
    )
    check(capi.fa_backward(op.handle, args))
    return Gradients(*(adapter.finish(x) if asked[name] is True else x for name, x in results.items()))


def _new(adapter: Adapter, q: Any, name: str, like: Any, zeroed: bool) -> Any:
    """A gradient that the caller has no array for, of q's kind."""
    if like is None:
        raise InvalidArgument(f"{name}: got True, expected {name[1:]} to be given, whose gradient it is; False works")
    seen = view(like, name[1:])
    return (adapter.zeros if zeroed else adapter.empty)(q, seen[2], seen[1])


def _tensor(seen: View, name: str, given: dict[str, Any]) -> tensors.Tensor:
    """The view of argument name in the four dimensions of fa_backward_args."""
    if name in ("lse", "dlse", "delta"):
        return tensors.of_rows(seen, name)
    if name in ("bias", "dbias", "mask"):
        return tensors.aligned_right(seen, name)
    if name in ("alibi_slopes", "sinks", "dsinks"):
        return tensors.of_heads(seen, name)
    lengths = "cu_seqlens_k" if name in ("k", "v", "dk", "dv") else "cu_seqlens_q"
    heads_first = given.get("layout") == "bhsd"
    tensors.require_heads(seen, name, heads_first, given.get(lengths) is not None)
    return tensors.four(seen, heads_first)


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

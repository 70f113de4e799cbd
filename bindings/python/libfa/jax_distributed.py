"""Attention of one sequence over several devices (context parallelism), inside of jax.shard_map: the rows of the sequence are
dealt to the devices along an axis of the mesh. On the CPU.

    q, k, v = (libfa.jax_distributed.deal(x, 4, rows="zigzag") for x in (q, k, v))    # in the order that shard_map splits
    part = functools.partial(libfa.jax_distributed.attention, axis_name="x", rows="zigzag", causal=True)
    out = jax.shard_map(part, mesh=mesh, in_specs=P(None, "x"), out_specs=P(None, "x"))(q, k, v)
    out = libfa.jax_distributed.undeal(out, 4, rows="zigzag")                         # in the order of the sequence

Results and gradients are those of libfa.jax.attention on the whole sequence within the type's bound, and the same bits in every
run on as many devices. Partial results and gradients are f32 until they are complete.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from . import capi, dealt_bytes, dealt_rows, jax_arrays, jax_calls, jax_checks, scalars
from .dealt_rows import Rows, local_lengths
from .errors import InvalidArgument, Unsupported
from .jax_decode import decode_attention
from .jax_ring import Setting, in_order, out_of_order, ring_attention

__all__ = ["attention", "deal", "decode_attention", "local_lengths", "undeal"]

_SCHEMES = ("ring", "all_gather", "ulysses")


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    axis_name: Any,
    scheme: str = "auto",
    rows: str = "contiguous",
    causal: Any = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    softmax_scale: float | None = None,
    sinks: Any = None,
    alibi_slopes: Any = None,
    deterministic: bool = True,
    num_threads: int = 0,
    return_lse: bool = False,
) -> Any:
    """libfa.jax.attention of a sequence whose rows are dealt to the devices along axis_name: of this device's rows.

    q (batch, rows, heads, dim), k and v (batch, keys, kv heads, dim): this device's rows, as many on each; float32, float16,
    bfloat16.

    axis_name           an axis of the jax.shard_map around the call
    scheme              "ring": keys and values travel around the ring; "all_gather": every device has all of them at once;
                        "ulysses": every device has all rows of some heads, of which there must be equal shares; "auto": the one
                        that sends the fewest bytes, the ring where several do
    rows                which rows a device has: "contiguous", "zigzag" (chunks r and 2 world - 1 - r of 2 world) or "striped"
                        (every world-th). Causal work is even with the last two. deal() brings rows into their order
    causal, window, softcap, softmax_scale, sinks, alibi_slopes, deterministic, num_threads    as libfa.jax.attention has them, of
                        the whole sequence; alibi_slopes not with "striped" rows, but for ulysses
    return_lse          also the logarithm of each row's sum: float32 (batch, heads, rows)

    Returns out, or (out, lse), with gradients of q, k, v and sinks. Those of sinks are sums over the devices, as shard_map makes
    them for every input that devices share.
    Raises InvalidArgument and Unsupported when the call is traced.
    """
    world = jax_checks.world_of(axis_name)
    if scheme != "auto" and scheme not in _SCHEMES:
        raise InvalidArgument(f"scheme: got {scheme!r}, expected 'auto' or one of {', '.join(map(repr, _SCHEMES))}")
    dealt_rows.require_scheme(rows)
    mask = dealt_rows.masking_of(causal, window)
    given = {"q": q, "k": k, "v": v, "sinks": sinks, "alibi_slopes": alibi_slopes}
    arrays = {name: jax_arrays.read(x, name) for name, x in given.items() if x is not None or name in "qkv"}
    for name in "qkv":
        if arrays[name].ndim != 4:
            raise InvalidArgument(f"{name}: got shape {arrays[name].shape}, expected (batch, rows, heads, dim)")
    heads = arrays["q"].shape[2]
    for name in ("sinks", "alibi_slopes"):
        if name in arrays and arrays[name].shape != (heads,):
            raise InvalidArgument(f"{name}: got shape {arrays[name].shape}, expected ({heads},), one a head of q")
    arrays = {name: jnp.asarray(x) if name in "qkv" else jnp.asarray(x, "float32") for name, x in arrays.items()}
    settings = jax_checks.Settings(
        scalars.mask_of(causal),
        mask.left,
        mask.right,
        0,
        scalars.scale(softmax_scale, "softmax_scale"),
        scalars.single(softcap, "softcap"),
        0 if deterministic else capi.FA_FLAG_NONDETERMINISTIC,
        scalars.integer(num_threads, "num_threads"),
        0,
        0,
        0,
    )
    shaped = {name: jax_arrays.shaped(x, name) for name, x in arrays.items()}
    jax_checks.check(shaped, arrays["q"].dtype, settings)
    of_q, of_k = (Rows((arrays[name].shape[1] * world,), rows, world, False) for name in "qk")
    for name in "qk":
        _require_shares(arrays[name].shape[1], rows, name)
    scheme = _chosen(scheme, of_q, of_k, mask, arrays)
    if scheme == "ulysses":
        out, lse = _ulysses(axis_name, world, rows, settings, **arrays)
    else:
        setting = Setting(axis_name, scheme, of_q, of_k, mask, settings, "alibi_slopes" in arrays)
        out, lse = ring_attention(setting, arrays)
    return (out, lse) if return_lse else out


def _require_shares(count: int, rows: str, name: str) -> None:
    if rows == "zigzag" and count % 2:
        raise InvalidArgument(
            f"{name}: got {count} rows, expected an even number, as a device has two chunks with rows='zigzag'"
        )


def _why_not_ulysses(heads: int, kv_heads: int, world: int) -> str | None:
    if heads % world:
        return f"q has {heads} heads, which {world} devices cannot share evenly"
    if kv_heads % world and world % kv_heads:
        return f"k has {kv_heads} heads, which {world} devices cannot share evenly"
    return None


def _chosen(scheme: str, rows: Rows, keys: Rows, mask: dealt_rows.Masking, arrays: dict[str, Any]) -> str:
    q, k, v = (arrays[name] for name in "qkv")
    why = _why_not_ulysses(q.shape[2], k.shape[2], rows.world)
    if scheme == "ulysses" and why is not None:
        raise InvalidArgument(f"scheme: got 'ulysses', but {why}; 'ring' and 'all_gather' take any number of heads")
    slopes = rows.scheme == "striped" and "alibi_slopes" in arrays
    if slopes and scheme in ("ring", "all_gather"):
        raise Unsupported(
            f"alibi_slopes: scheme {scheme!r} has none with rows='striped'; rows='zigzag' and scheme='ulysses' do"
        )
    if scheme != "auto":
        return scheme
    if slopes:
        if why is not None:
            raise Unsupported(f"alibi_slopes: of rows='striped' scheme 'ulysses' has some, but {why}; rows='zigzag' works")
        return "ulysses"
    sizes = dealt_bytes.Sizes(q.shape[0], q.shape[2], k.shape[2], q.shape[3], v.shape[3], q.dtype.itemsize, k.dtype.itemsize)
    best = dealt_bytes.least(rows, keys, mask, sizes, gradients=True)
    return "ring" if best == "ulysses" and why is not None else best


def _ulysses(
    axis_name: Any,
    world: int,
    rows: str,
    settings: jax_checks.Settings,
    q: Any,
    k: Any,
    v: Any,
    sinks: Any = None,
    alibi_slopes: Any = None,
) -> tuple[Any, Any]:
    """All rows of some heads: to them by an all-to-all, and back. Devices that share a key/value head each get a copy of it."""

    def to_heads(x: Any) -> Any:
        return in_order(jax.lax.all_to_all(x, axis_name, 2, 1, tiled=True), world, rows)

    def own(x: Any) -> Any:
        count = x.shape[0] // world
        return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index(axis_name) * count, count)

    if world > k.shape[2]:
        k, v = (jnp.repeat(x, world // x.shape[2], axis=2) for x in (k, v))
    arrays = {"q": to_heads(q), "k": to_heads(k), "v": to_heads(v)}
    arrays |= {name: own(x) for name, x in (("sinks", sinks), ("alibi_slopes", alibi_slopes)) if x is not None}
    shaped = {name: jax_arrays.shaped(x, name) for name, x in arrays.items()}
    letters = "".join(map(jax_arrays.letter_of, list(shaped)[3:]))
    call = jax_calls.Call(letters, q.dtype, settings.attributes())
    out, lse = jax_calls.bind(jax_calls.attention_p, *shaped.values(), call=call)
    lse = jnp.swapaxes(lse[..., 0], 1, 2)  # (batch, rows, heads)
    out, lse = (jax.lax.all_to_all(out_of_order(x, world, rows), axis_name, 1, 2, tiled=True) for x in (out, lse))
    return out, jnp.swapaxes(lse, 1, 2)


@functools.lru_cache(maxsize=256)
def _order(seqlen: int, world: int, rows: str) -> Any:
    dealt = Rows((seqlen,), rows, world, False)
    places = numpy.arange(seqlen)
    parts = [places[part] for rank in range(world) for _, part in dealt_rows.slices(dealt, rank)]
    return numpy.concatenate([places[:0], *parts])


def _order_of(x: Any, world: Any, rows: str, axis: Any) -> Any:
    dealt_rows.require_scheme(rows)
    world, axis = scalars.integer(world, "world"), scalars.integer(axis, "axis")
    if world < 1:
        raise InvalidArgument(f"world: got {world}, expected 1 or more devices")
    if not -x.ndim <= axis < x.ndim:
        raise InvalidArgument(f"axis: got {axis}, expected one of the {x.ndim} dimensions of x")
    parts = 2 * world if rows == "zigzag" else world
    if x.shape[axis] % parts:
        raise InvalidArgument(f"x: got {x.shape[axis]} rows, expected a multiple of {parts} with rows={rows!r}; padding works")
    return _order(x.shape[axis], world, rows)


def deal(x: Any, world: int, *, rows: str = "contiguous", axis: int = 1) -> Any:
    """x with the rows of each of `world` devices next to each other: an even split of the dimension `axis` then gives each device
    its rows. The number of rows is a multiple of world, with "zigzag" of 2 world."""
    return jnp.take(x, _order_of(x, world, rows, axis), axis)


def undeal(x: Any, world: int, *, rows: str = "contiguous", axis: int = 1) -> Any:
    """deal()'s inverse: x in the order of the sequence."""
    return jnp.take(x, numpy.argsort(_order_of(x, world, rows, axis)), axis)

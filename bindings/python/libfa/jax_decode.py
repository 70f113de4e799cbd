"""Decode context parallelism inside of jax.shard_map: the tokens of a cache are dealt to the devices, each attends its own, and
the partial results are merged. On the CPU.

The keys of a device are those before a position: no mask is needed but a length, and for a window a number of keys that are
left out in front.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from . import capi, jax_arrays, jax_calls, jax_checks, scalars
from .dealt_rows import local_lengths
from .errors import InvalidArgument

_FLOAT = jnp.dtype("float32")


def _merged(outs: Any, lses: Any, sinks: Any) -> tuple[Any, Any]:
    """fa_merge of all devices' results, in their order: outs (devices, tokens, heads, dim), lses (devices, tokens, heads)."""
    total = jax.nn.logsumexp(lses, axis=0)
    if sinks is not None:
        total = jnp.logaddexp(total, sinks)
    weights = jnp.exp(lses - jnp.where(total == -jnp.inf, 0, total))  # tokens without keys have 0 and -inf
    return (outs * weights[..., None]).sum(0), total


def decode_attention(
    q: Any,
    k: Any,
    v: Any,
    seqlens: Any,
    *,
    axis_name: Any,
    interleave: int = 1,
    split_heads: bool = False,
    block_table: Any = None,
    window: int = -1,
    softcap: float = 0.0,
    softmax_scale: float | None = None,
    sinks: Any = None,
    num_threads: int = 0,
    return_lse: bool = False,
) -> Any:
    """Causal attention of new tokens over a cache whose tokens are dealt to the devices along axis_name, with gradients.

    q                   (batch, new tokens, heads, dim), the last tokens of their sequences; the same on every device, or with
                        split_heads the device's own heads, as many on each, and the result then has these
    k, v                this device's cache: (batch, rows, kv heads, dim), or with block_table (pages, page size, kv heads, dim).
                        Token t of a sequence is on device (t // interleave) % world, and there behind those before it; the new
                        tokens are in it
    seqlens             the lengths of whole sequences, new tokens included: int32 (batch,), the same on every device
    axis_name           an axis of the jax.shard_map around the call
    window              tokens before its own that a query attends; -1: all
    sinks               one for each head, those of all devices with split_heads
    block_table, softcap, softmax_scale, num_threads    as libfa.jax.attention has them

    Returns out, shaped as q, or (out, lse): lse float32 (batch, heads, new tokens); the same on every device, or with split_heads
    of its heads. local_lengths() says how many of a sequence's tokens a device has, which is where the next one goes.
    Raises InvalidArgument and Unsupported when the call is traced. Lengths beyond the rows of a device fail on every device, as in
    libfa.jax.attention; a page that one device lacks ends the process after a minute, as XLA then waits for that device in vain.
    """
    world, rank = jax_checks.world_of(axis_name), jax.lax.axis_index(axis_name)
    interleave, window = scalars.integer(interleave, "interleave"), max(scalars.integer(window, "window"), -1)
    if interleave < 1:
        raise InvalidArgument(f"interleave: got {interleave}, expected 1 or more tokens")
    given = {"q": q, "k": k, "v": v, "seqlens": seqlens, "block_table": block_table, "sinks": sinks}
    read = {name: jnp.asarray(jax_arrays.read(x, name)) for name, x in given.items() if x is not None or name in "qkv"}
    q, k, v, lengths = (read[name] for name in ("q", "k", "v", "seqlens"))
    for name in "qkv":
        if read[name].ndim != 4:
            expected = "(batch, new tokens, heads, dim)" if name == "q" else "(batch, rows, kv heads, dim) or pages"
            raise InvalidArgument(f"{name}: got shape {read[name].shape}, expected {expected}")
    batch, new, heads, dim = q.shape
    if lengths.shape != (batch,):
        raise InvalidArgument(f"seqlens: got shape {lengths.shape}, expected ({batch},), one a sequence of q")
    every = heads * world if split_heads else heads
    if "sinks" in read and read["sinks"].shape != (every,):
        raise InvalidArgument(f"sinks: got shape {read['sinks'].shape}, expected ({every},), one a head of all devices")
    settings = jax_checks.Settings(
        capi.FA_MASK_NONE,
        -1,
        -1,
        0,
        scalars.scale(softmax_scale, "softmax_scale"),
        scalars.single(softcap, "softcap"),
        0,
        scalars.integer(num_threads, "num_threads"),
        0,
        0,
        0,
    )
    arrays = {"k": k, "v": v, "seqused_k": lengths.astype("int32")}
    if "block_table" in read:
        arrays["block_table"] = jax_arrays.shaped(read["block_table"], "block_table")
    jax_checks.check({"q": jax.ShapeDtypeStruct((batch, new, every, dim), q.dtype), **arrays}, _FLOAT, settings)

    # Each new token is a sequence with keys of its own number.
    place = (lengths[:, None] - new + jnp.arange(new)).reshape(-1)
    keys, most = (local_lengths((place + 1).clip(0), device, world, interleave) for device in (rank, 0))
    rows = k.shape[1] * (read["block_table"].shape[1] if "block_table" in read else 1)
    # A length that is too long for the first device fails on all: XLA ends the process where one waits for a device that failed.
    arrays["seqused_k"] = jnp.where(most > rows, most, keys).astype("int32")
    if window >= 0:
        arrays["leftpad_k"] = local_lengths((place - window).clip(0), rank, world, interleave).astype("int32")
    if "block_table" in arrays:
        arrays["block_table"] = jnp.repeat(arrays["block_table"], new, axis=0)
    elif new > 1:
        arrays["kv_batch_idx"] = jnp.repeat(jnp.arange(batch, dtype="int32"), new)
    if split_heads:
        q = jax.lax.all_gather(q, axis_name, axis=2, tiled=True)
    letters = "".join(map(jax_arrays.letter_of, list(arrays)[2:]))
    call = jax_calls.Call(letters, _FLOAT, settings.attributes())
    out, lse = jax_calls.bind(jax_calls.attention_p, q.reshape(batch * new, 1, every, dim), *arrays.values(), call=call)
    out, lse = out[:, 0], lse[..., 0, 0]
    own = read.get("sinks")
    if split_heads:
        parts = (x.reshape(batch * new, world, heads, *x.shape[2:]).swapaxes(0, 1) for x in (out, lse))
        outs, lses = (jax.lax.all_to_all(x, axis_name, 0, 0) for x in parts)
        own = None if own is None else jax.lax.dynamic_slice_in_dim(own, rank * heads, heads)
    else:
        outs, lses = (jax.lax.all_gather(x, axis_name, to="invarying") for x in (out, lse))
    out, lse = _merged(outs, lses, own)
    out = out.reshape(batch, new, heads, -1).astype(q.dtype)
    return (out, jnp.swapaxes(lse.reshape(batch, new, heads), 1, 2)) if return_lse else out

"""libfa.attention as an operation of JAX, inside of jax.jit, grad, vmap and shard_map, on one device or many. On the CPU.

Importing this module imports jax.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, overload

import jax

from . import capi, jax_arrays, jax_calls, jax_checks, jax_sharding, scalars
from .options import Array, Causal, Options, unexpected

if TYPE_CHECKING:
    from typing_extensions import Unpack

@overload
def attention(
    q: Array, k: Array, v: Array, *, out_dtype: Any = ..., return_lse: Literal[False] = ..., **_: Unpack[Options]
) -> jax.Array: ...
@overload
def attention(
    q: Array, k: Array, v: Array, *, out_dtype: Any = ..., return_lse: Literal[True], **_: Unpack[Options]
) -> tuple[jax.Array, jax.Array]: ...
@overload
def attention(
    q: Array, k: Array, v: Array, *, out_dtype: Any = ..., return_lse: bool, **_: Unpack[Options]
) -> jax.Array | tuple[jax.Array, jax.Array]: ...
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: Causal = False,
    window: tuple[SupportsIndex, SupportsIndex] = (-1, -1),
    attention_chunk: SupportsIndex = 0,
    softcap: SupportsFloat = 0.0,
    softmax_scale: SupportsFloat | None = None,
    bias_before_softcap: bool = False,
    max_seqlen_q: SupportsIndex = 0,
    max_seqlen_k: SupportsIndex = 0,
    num_splits: SupportsIndex = 0,
    deterministic: bool = True,
    batch_invariant: bool = False,
    out_dtype: Any = None,
    return_lse: bool = False,
    num_threads: SupportsIndex = 0,
    **arrays: Any,
) -> Any:
    """libfa.attention of q (batch, sequence, heads, dim), k and v (batch, keys, kv heads, dim), packed ones without the batch;
    the same keywords, less those of memory that the caller lends and layout. Rows that no sequence uses are 0, with an lse of
    -inf.

    q, k, v, bias and sinks have gradients, of out and of lse. Those of k, v, bias and sinks are sums over their
    users, and only the gradients that JAX asks for are computed. alibi_slopes are constants, and there are none with
    block_table, of second order or in forward mode.

    vmap makes one call of all samples, but packed ones, which it calls one after another. Over several devices, the batch and
    the heads of q, k and v may be sharded: every device computes its own. A sequence that is sharded is gathered first.
    """
    for name in arrays:
        if name not in jax_arrays.TENSORS and name not in jax_arrays.INTS:
            raise unexpected(name)
    given = {"q": q, "k": k, "v": v, **arrays}
    read = {name: jax_arrays.read(x, name) for name, x in given.items() if x is not None or name in "qkv"}
    flags = (
        (0 if deterministic else capi.FA_FLAG_NONDETERMINISTIC)
        | (capi.FA_FLAG_BATCH_INVARIANT if batch_invariant else 0)
        | (capi.FA_FLAG_BIAS_BEFORE_SOFTCAP if bias_before_softcap else 0)
    )
    settings = jax_checks.Settings(
        scalars.mask_of(causal),
        *scalars.pair(window, "window"),
        scalars.integer(attention_chunk, "attention_chunk"),
        scalars.scale(softmax_scale, "softmax_scale"),
        scalars.single(softcap, "softcap"),
        flags,
        scalars.integer(num_threads, "num_threads"),
        scalars.integer(max_seqlen_q, "max_seqlen_q"),
        scalars.integer(max_seqlen_k, "max_seqlen_k"),
        scalars.integer(num_splits, "num_splits"),
    )
    dtype = read["q"].dtype if out_dtype is None else jax_arrays.out_dtype(out_dtype)
    traced, compiled = _functions(tuple(read), dtype, settings, bool(return_lse))
    if any(isinstance(x, jax.core.Tracer) for x in read.values()):
        return traced(*read.values())
    return jax_checks.eager(compiled, read)


@functools.lru_cache(maxsize=1024)
def _functions(names: tuple[str, ...], dtype: Any, settings: jax_checks.Settings, return_lse: bool) -> tuple[Any, Any]:
    """A function of the arrays of these names, and the same compiled, for calls outside of every transformation."""

    def attention(*arrays: Any) -> Any:
        read = dict(zip(names, arrays))
        shape = read["q"].shape[:-1] + read["v"].shape[-1:]
        shaped = {name: jax_arrays.shaped(x, name) for name, x in read.items()}
        jax_checks.check(shaped, dtype, settings)
        call = jax_calls.Call("".join(map(jax_arrays.letter_of, names[3:])), dtype, settings.attributes())
        run = functools.partial(jax_calls.bind, jax_calls.attention_p, call=call)
        out, lse = jax_sharding.of_explicit_axes(run, list(shaped.values()))
        out = out.reshape(shape)
        return (out, lse[0, :, :, 0] if len(shape) == 3 else lse[..., 0]) if return_lse else out

    return attention, jax.jit(attention)

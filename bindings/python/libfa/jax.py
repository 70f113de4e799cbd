"""libfa.attention as an operation of JAX, through jax.ffi, inside of jax.jit, grad, vmap and shard_map. On the CPU.

Importing this module imports jax.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, SupportsIndex, overload

import jax
import jax.numpy as jnp
import numpy

from . import capi, jax_arrays, jax_calls, scalars
from .errors import InvalidArgument
from .options import Array, Causal, Options

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

    q, k, v, bias and sinks have gradients, of out and of lse. Those of k, v, bias and sinks are sums over what they are shared
    by, and only what is differentiated for is computed. alibi_slopes are constants, and there are none with block_table, of
    second order or in forward mode. vmap runs one call after another.
    """
    for name in arrays:
        if name not in jax_arrays.TENSORS and name not in jax_arrays.INTS:
            raise TypeError(f"attention() got an unexpected keyword argument {name!r}")
    q, k, v = (jnp.asarray(jax_arrays.read(x, name)) for name, x in (("q", q), ("k", k), ("v", v)))
    shape = q.shape[:-1] + v.shape[-1:]
    q, k, v = (x[None] if x.ndim == 3 else x for x in (q, k, v))
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise InvalidArgument(f"{name}: got shape {x.shape}, expected (batch, sequence, heads, dim)")
    if v.dtype != k.dtype:
        raise InvalidArgument(f"v: got {v.dtype}, expected k's {k.dtype}")
    read = {name: jnp.asarray(jax_arrays.read(x, name)) for name, x in arrays.items() if x is not None}
    sequences = q.shape[0]
    for name in ("cu_seqlens_q", "cu_seqlens_k"):
        if name in read:
            sequences = read[name].size - 1
    given, rest = "", []
    for name, x in read.items():
        if name in jax_arrays.INTS:
            length = sequences + 1 if name.startswith("cu_") else sequences
            if x.shape != (length,):
                raise InvalidArgument(f"{name}: got shape {x.shape}, expected ({length},)")
        elif name in ("bias", "mask"):
            x = x.reshape((1,) * (4 - x.ndim) + x.shape)
            x = x.astype(bool) if name == "mask" else x
        else:
            x = (x[None] if x.ndim == 1 else x)[:, :, None, None]
            x = x if name == "block_table" else x.astype("float32")
        given += {**jax_arrays.TENSORS, **jax_arrays.INTS}[name][0]
        rest.append(x)
    flags = (
        (0 if deterministic else capi.FA_FLAG_NONDETERMINISTIC)
        | (capi.FA_FLAG_BATCH_INVARIANT if batch_invariant else 0)
        | (capi.FA_FLAG_BIAS_BEFORE_SOFTCAP if bias_before_softcap else 0)
    )
    left, right = scalars.pair(window, "window")
    numbers = dict(
        attention_chunk=attention_chunk,
        num_threads=num_threads,
        max_seqlen_q=max_seqlen_q,
        max_seqlen_k=max_seqlen_k,
        num_splits=num_splits,
    )
    numbers = {name: scalars.integer(value, name) for name, value in numbers.items()}
    numbers.update(mask=scalars.mask_of(causal), window_left=left, window_right=right, flags=flags)
    scale, cap = scalars.scale(softmax_scale, "softmax_scale"), scalars.single(softcap, "softcap")
    attributes = dict(
        softmax_scale=numpy.float32(scale),
        softcap=numpy.float32(cap),
        **{name: numpy.int64(value) for name, value in numbers.items()},
    )
    call = jax_calls.attention(given, q.dtype if out_dtype is None else jax_arrays.out_dtype(out_dtype), attributes)
    out, lse = call(q, k, v, *rest)
    out = out.reshape(shape)
    return (out, lse[0, :, :, 0] if len(shape) == 3 else lse[..., 0]) if return_lse else out

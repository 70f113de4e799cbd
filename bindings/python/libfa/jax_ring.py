"""The ring and the all-gather of libfa.jax_distributed: each device keeps its queries, and keys and values come to it.

All devices run one program, so that the mask between a device's queries and the keys of another is a number which each device
computes: fa.h's q_offset. Windows are the same for all. A device's queries are one chunk, or with zigzag rows two, of a call:
sequences that share their keys.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy

from . import capi, dealt_rows, jax_arrays, jax_calls, jax_checks
from .dealt_rows import OPEN, Masking, Rows


class Setting(NamedTuple):
    """What a call is, apart from its arrays."""

    axis: Any
    scheme: str  # "ring" or "all_gather"
    rows: Rows  # of queries
    keys: Rows
    mask: Masking
    settings: jax_checks.Settings
    has_slopes: bool

    @property
    def shift(self) -> int:
        """fa.h's offset of the whole call."""
        return 0 if self.mask.causal == "top_left" else self.keys.total - self.rows.total

    @property
    def by_position(self) -> bool:
        """Whether it matters which rows a device has."""
        return bool(self.mask.causal) or self.mask.left >= 0 or self.mask.right >= 0 or self.has_slopes

    @property
    def chunks(self) -> int:
        """Chunks of a device's queries in a call."""
        return 2 if self.rows.scheme == "zigzag" and self.by_position else 1


class Part(NamedTuple):
    """A call of all queries with the keys from `start` to `end` of those at hand."""

    start: int
    end: int
    offsets: Any  # of each chunk of queries, an array on each device; None: all keys are attended
    causal: bool
    window: tuple[int, int]


def in_order(x: Any, world: int, rows: str) -> Any:
    """Rows (dimension 1) of all devices, one device after the other, in the order of the sequence."""
    if rows == "contiguous":
        return x
    if rows == "striped":
        return x.reshape(x.shape[0], world, -1, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)
    return jnp.take(x.reshape(x.shape[0], 2 * world, -1, *x.shape[2:]), _places(world), axis=1).reshape(x.shape)


def out_of_order(x: Any, world: int, rows: str) -> Any:
    """in_order()'s inverse."""
    if rows == "contiguous":
        return x
    if rows == "striped":
        return x.reshape(x.shape[0], -1, world, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)
    places = numpy.argsort(_places(world))
    return jnp.take(x.reshape(x.shape[0], 2 * world, -1, *x.shape[2:]), places, axis=1).reshape(x.shape)


def _places(world: int) -> Any:
    """Where each chunk of the sequence is among the zigzag chunks of all devices."""
    return numpy.array([2 * i if i < world else 2 * (2 * world - 1 - i) + 1 for i in range(2 * world)])


def _starts(rows: Rows, rank: Any, chunks: int) -> list[Any]:
    """The first row of each chunk of a device."""
    share = rows.total // rows.world // chunks
    return [rank * share] if chunks == 1 else [rank * share, (2 * rows.world - 1 - rank) * share]


def _parts(setting: Setting, rank: Any, step: int) -> list[Part]:
    """The calls of a device with the keys of the device `step` before it."""
    world, mask = setting.rows.world, setting.mask
    share = setting.keys.total // world
    if not setting.by_position:
        return [Part(0, share, None, False, (OPEN, OPEN))]
    if setting.rows.scheme == "striped":
        return _striped_parts(setting, rank, step, share)
    owner = (rank - step) % world
    firsts = _starts(setting.rows, rank, setting.chunks)
    size = share // setting.chunks
    return [
        Part(i * size, (i + 1) * size, [first + setting.shift - key for first in firsts], bool(mask.causal), mask[1:])
        for i, key in enumerate(_starts(setting.keys, owner, setting.chunks))
    ]


def _striped_parts(setting: Setting, rank: Any, step: int, share: int) -> list[Part]:
    """Of queries rank + i world and keys owner + j world, which are rank - owner = step or step - world apart: j is at most
    i + (apart + upper) // world and at least i - (left - apart) // world. The sum of both quotients depends on step alone."""
    world, mask = setting.rows.world, setting.mask
    apart = setting.shift + jnp.where(rank >= step, step, step - world)
    upper = [0] * bool(mask.causal) + [mask.right] * (mask.right >= 0)
    if not upper:
        return [Part(0, share, [-((mask.left - apart) // world)], False, (0, OPEN))]
    offsets = [(apart + min(upper)) // world]
    if mask.left < 0:
        return [Part(0, share, offsets, True, (OPEN, OPEN))]
    width = (setting.shift + step + min(upper)) // world + (mask.left - setting.shift - step) // world
    return [Part(0, share, offsets, True, (width, OPEN))] if width >= 0 else []


def _visits(setting: Setting, rank: Any, k: Any, v: Any) -> Iterator[tuple[int, Any, Any, list[Part]]]:
    """(step, keys, values, calls) of each step; around the ring those of the next one travel meanwhile."""
    world = setting.rows.world
    if setting.scheme == "ring":
        hops = dealt_rows.hops(setting.rows, setting.keys, setting.mask)
        for step in range(hops + 1):
            coming = _passed_on(setting, (k, v), 1) if step < hops else (k, v)
            yield step, k, v, _parts(setting, rank, step)
            k, v = coming
        return
    if setting.rows.scheme == "striped" and setting.by_position:
        every = [jax.lax.all_gather(x, setting.axis) for x in (k, v)]
        for step in range(world):
            yield (
                step,
                *(jax.lax.dynamic_index_in_dim(x, (rank - step) % world, 0, False) for x in every),
                _parts(setting, rank, step),
            )
        return
    k, v = (in_order(jax.lax.all_gather(x, setting.axis, axis=1, tiled=True), world, setting.rows.scheme) for x in (k, v))
    offsets = None
    if setting.by_position:
        offsets = [first + setting.shift for first in _starts(setting.rows, rank, setting.chunks)]
    yield 0, k, v, [Part(0, k.shape[1], offsets, bool(setting.mask.causal), setting.mask[1:])]


def _passed_on(setting: Setting, arrays: Any, far: int) -> Any:
    """Arrays of the device `far` before this one."""
    world = setting.rows.world
    return jax.lax.ppermute(arrays, setting.axis, [(i, (i + far) % world) for i in range(world)])


def _split(x: Any, chunks: int) -> Any:
    """(batch, rows, ...) as (batch chunks, rows of a chunk, ...)."""
    return x.reshape(x.shape[0] * chunks, x.shape[1] // chunks, *x.shape[2:])


def _joined(x: Any, chunks: int) -> Any:
    return x.reshape(x.shape[0] // chunks, x.shape[1] * chunks, *x.shape[2:])


def _split_sums(x: Any, chunks: int) -> Any:
    """(batch, heads, rows) as (batch chunks, heads, rows of a chunk, 1), fa.h's lse."""
    return jnp.swapaxes(_split(jnp.swapaxes(x, 1, 2), chunks), 1, 2)[..., None]


def _joined_sums(x: Any, chunks: int) -> Any:
    return jnp.swapaxes(_joined(jnp.swapaxes(x[..., 0], 1, 2), chunks), 1, 2)


def _call(setting: Setting, part: Part, batch: int, slopes: Any, dtype: Any) -> tuple[list[Any], jax_calls.Call]:
    """The optional inputs of a call, and its settings."""
    given: dict[str, Any] = {}
    if slopes is not None:
        given["alibi_slopes"] = jax_arrays.shaped(slopes, "alibi_slopes")
    if part.offsets is not None:
        given["q_offset"] = jnp.tile(jnp.stack(part.offsets).astype("int32"), batch)
    if setting.chunks > 1:
        given["kv_batch_idx"] = jnp.repeat(jnp.arange(batch, dtype="int32"), setting.chunks)
    mask = capi.FA_MASK_CAUSAL if part.causal else capi.FA_MASK_NONE
    settings = setting.settings._replace(mask=mask, window_left=part.window[0], window_right=part.window[1])
    letters = "".join(map(jax_arrays.letter_of, given))
    return list(given.values()), jax_calls.Call(letters, dtype, settings.attributes())


def _merged(out: Any, lse: Any, part: Any, part_lse: Any) -> tuple[Any, Any]:
    """fa_merge of two results, f32. Rows without keys have 0 and -inf."""
    both = jnp.logaddexp(lse, part_lse)
    sums = jnp.where(both == -jnp.inf, 0, both)
    first, second = (jnp.swapaxes(jnp.exp(x - sums), 1, 2) for x in (lse, part_lse))
    return out * first + part * second, both


def _forward(setting: Setting, arrays: dict[str, Any]) -> tuple[Any, Any]:
    q, k, v = (arrays[name] for name in "qkv")
    batch, rank = q.shape[0], jax.lax.axis_index(setting.axis)
    queries = _split(q, setting.chunks)
    found = None
    if "sinks" in arrays:  # a part without values
        out = jnp.zeros((*queries.shape[:-1], v.shape[-1]), "float32")
        shape = (queries.shape[0], queries.shape[2], queries.shape[1], 1)
        found = out, jnp.broadcast_to(arrays["sinks"][:, None, None], shape)
    for _, keys, values, parts in _visits(setting, rank, k, v):
        for part in parts:
            more, call = _call(setting, part, batch, arrays.get("alibi_slopes"), jnp.dtype("float32"))
            at = slice(part.start, part.end)
            new = jax_calls.bind(jax_calls.attention_p, queries, keys[:, at], values[:, at], *more, call=call)
            found = tuple(new) if found is None else _merged(*found, *new)
    if found is None:  # windows that no key of any device is in
        out = jnp.zeros((*queries.shape[:-1], v.shape[-1]), "float32")
        found = out, jnp.full((queries.shape[0], queries.shape[2], queries.shape[1], 1), -jnp.inf, "float32")
    return _joined(found[0], setting.chunks).astype(q.dtype), _joined_sums(found[1], setting.chunks)


def _backward(setting: Setting, arrays: dict[str, Any], out: Any, lse: Any, dout: Any, dlse: Any) -> tuple[Any, Any, Any]:
    """(dq, dk, dv), f32."""
    q, k, v = (arrays[name] for name in "qkv")
    chunks, batch, rank = setting.chunks, q.shape[0], jax.lax.axis_index(setting.axis)
    queries = _split(q, chunks)
    results = _split(out, chunks), _split_sums(lse, chunks), _split(dout, chunks)
    dq: Any = jnp.zeros(queries.shape, "float32")
    sums: Any = None  # of keys and values: around the ring on their way, of an all-gather those of all devices
    step = 0
    for step, keys, values, parts in _visits(setting, rank, k, v):
        own = []
        for part in parts:
            more, call = _call(setting, part, batch, arrays.get("alibi_slopes"), out.dtype)
            gradients = jax_calls.BackwardCall(call, call.given + "D", "qkv", jnp.dtype("float32"))
            at = slice(part.start, part.end)
            given = queries, keys[:, at], values[:, at], *results, *more, _split_sums(dlse, chunks)
            of_q, *of_keys = jax_calls.bind(jax_calls.backward_p, *given, call=gradients)
            dq = dq + of_q
            own.append(of_keys)
        if own:
            of_step = [jnp.concatenate(x, 1) for x in zip(*own)]
        else:  # no key of this device is within a window
            of_step = [jnp.zeros(x.shape, "float32") for x in (keys, values)]
        sums = _collected(setting, rank, step, sums, of_step)
    dk, dv = _home(setting, step, sums)
    return _joined(dq, chunks), dk, dv


def _collected(setting: Setting, rank: Any, step: int, sums: Any, own: list[Any]) -> list[Any]:
    """The gradients of keys that earlier steps have found, and those of this step."""
    world = setting.rows.world
    if setting.scheme == "ring":
        return own if sums is None else [x + y for x, y in zip(_passed_on(setting, sums, 1), own)]
    if own[0].shape[1] * world > setting.keys.total:  # of all devices at once
        return own
    sums = [jnp.zeros((world, *x.shape), x.dtype) for x in own] if sums is None else sums
    return [x.at[(rank - step) % world].set(y) for x, y in zip(sums, own)]


def _home(setting: Setting, step: int, sums: list[Any]) -> list[Any]:
    """The gradients of this device's keys, by those of all devices."""
    world = setting.rows.world
    if setting.scheme == "ring":
        return list(_passed_on(setting, sums, world - step)) if step else sums
    if sums[0].ndim == 5:
        return [jax.lax.psum_scatter(x, setting.axis) for x in sums]
    scattered = functools.partial(jax.lax.psum_scatter, axis_name=setting.axis, scatter_dimension=1, tiled=True)
    return [scattered(out_of_order(x, world, setting.rows.scheme)) for x in sums]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(setting: Setting, arrays: dict[str, Any]) -> tuple[Any, Any]:
    return _forward(setting, arrays)


def _attend_forward(setting: Setting, arrays: dict[str, Any]) -> Any:
    out, lse = _forward(setting, arrays)
    return (out, lse), (arrays, out, lse)


def _attend_backward(setting: Setting, saved: Any, gradients: Any) -> tuple[dict[str, Any]]:
    arrays, out, lse = saved
    dout, dlse = gradients
    found = dict(zip("qkv", _backward(setting, arrays, out, lse, dout, dlse)))
    if "sinks" in arrays:
        delta = jnp.einsum("bihd,bihd->bhi", dout.astype("float32"), out.astype("float32")) - dlse
        found["sinks"] = (jnp.exp(arrays["sinks"][:, None] - lse) * -delta).sum((0, 2))
    if "alibi_slopes" in arrays:
        found["alibi_slopes"] = jnp.zeros_like(arrays["alibi_slopes"])  # for _constant()
    return ({name: x.astype(arrays[name].dtype) for name, x in found.items()},)


_attend.defvjp(_attend_forward, _attend_backward)


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _constant(slopes: Any) -> Any:
    """Slopes, which have no gradient."""
    return slopes


def _refuse(*_: Any) -> Any:
    raise NotImplementedError(jax_calls.CONSTANTS[jax_arrays.letter_of("alibi_slopes")])


_constant.defvjp(lambda slopes: (slopes, None), _refuse)


def ring_attention(setting: Setting, arrays: dict[str, Any]) -> tuple[Any, Any]:
    """(out, lse) of the rows of this device."""
    if "alibi_slopes" in arrays:
        arrays = {**arrays, "alibi_slopes": _constant(arrays["alibi_slopes"])}
    alike = jax_calls.alike(list(arrays.values()))
    found: tuple[Any, Any] = _attend(setting, dict(zip(arrays, alike)))
    return found

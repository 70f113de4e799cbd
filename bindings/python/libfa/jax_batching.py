"""jax.vmap of the primitives of jax_calls.py: one call, whose sequences are those of all samples."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .jax_arrays import letters_of

# Every input has the batch as its first dimension. It may be 1 in these, by the letters of jax_arrays.py.
_REPEATABLE = letters_of("scores", "per_head")
_INDICES = "it"  # of sequences or pages of k and v


def _one_by_one(bind: Any, primitive: Any, arrays: Any, mapped: list[bool], call: Any) -> Any:
    """A call for each sample, as the ends of packed sequences are in separate arrays."""
    apart = [x for x, own in zip(arrays, mapped) if own]

    def sample(own: Any) -> Any:
        own = iter(own)
        return tuple(bind(primitive, *(next(own) if has else x for x, has in zip(arrays, mapped)), call=call))

    return jax.lax.map(sample, apart)


class _Samples:
    """The arrays of all samples as those of one call."""

    def __init__(self, letters: str, arrays: Any, mapped: list[bool], wanted: str) -> None:
        self.count = next(x.shape[0] for x, own in zip(arrays, mapped) if own)
        of = dict(zip(letters, zip(arrays, mapped)))
        self.batch = of["q"][0].shape[1 if of["q"][1] else 0]
        self.shared = any(letter in letters for letter in _INDICES)  # the number of sequences, or pages, of k and v may differ
        self.whole = self.shared and not (of["k"][1] or of["v"][1] or "k" in wanted or "v" in wanted)
        k, own = of["k"]
        self.of_k = k.shape[1 if own else 0]

    def joined(self, letter: str, x: Any, mapped: bool, wanted: str) -> Any:
        """(samples * batch, ...) of x, or x where one is for all."""
        if letter in "kv" and self.whole:
            return x
        batch = x.shape[1 if mapped else 0]
        if letter in _REPEATABLE and batch == 1 and not mapped and letter not in wanted:
            return x
        to = self.batch if letter in _REPEATABLE else batch
        if not mapped:
            x = x[None]
        x = jnp.broadcast_to(x, (self.count, to, *x.shape[2:]))
        if letter in _INDICES and not self.whole:
            steps = self.of_k * jnp.arange(self.count, dtype=x.dtype)
            x = x + steps.reshape((-1,) + (1,) * (x.ndim - 1))
        return x.reshape(self.count * to, *x.shape[2:])

    def parted(self, x: Any, batch: int) -> Any:
        """(samples, batch, ...) of a result of all samples: summed where the batch is 1 of an input that was repeated."""
        x = x.reshape(self.count, x.shape[0] // self.count, *x.shape[1:])
        return x.astype("float32").sum(1, keepdims=True).astype(x.dtype) if batch != x.shape[1] else x


def _shared(arrays: Any, mapped: list[bool], call: Any, wanted: str) -> tuple[Any, list[bool], Any]:
    """The call with an index of sequences in the place of copies of k and v, where these are the same for every sample."""
    if mapped[1] or mapped[2] or any(letter in call.given for letter in _INDICES) or "k" in wanted or "v" in wanted:
        return arrays, mapped, call
    index = jnp.arange(arrays[1].shape[0], dtype="int32")
    return [*arrays, index], [*mapped, False], call._replace(given=call.given + "i")


def _moved(arrays: Any, axes: Any) -> tuple[list[Any], list[bool]]:
    mapped = [axis is not None for axis in axes]
    return [jnp.moveaxis(x, axis, 0) if own else x for x, axis, own in zip(arrays, axes, mapped)], mapped


def forward(bind: Any, primitive: Any, arrays: Any, axes: Any, *, call: Any, **_: Any) -> Any:
    arrays, mapped = _moved(arrays, axes)
    if "Q" in call.given or "K" in call.given:
        return _one_by_one(bind, primitive, arrays, mapped, call), (0, 0)
    arrays, mapped, call = _shared(arrays, mapped, call, "")
    letters = "qkv" + call.given
    samples = _Samples(letters, arrays, mapped, "")
    joined = [samples.joined(letter, x, own, "") for letter, x, own in zip(letters, arrays, mapped)]
    return [samples.parted(x, samples.batch) for x in bind(primitive, *joined, call=call)], (0, 0)


def backward(bind: Any, primitive: Any, arrays: Any, axes: Any, *, call: Any, **_: Any) -> Any:
    arrays, mapped = _moved(arrays, axes)
    zero = (0,) * len(call.wanted)
    if "Q" in call.given or "K" in call.given:
        return _one_by_one(bind, primitive, arrays, mapped, call), zero
    arrays, mapped, call = _shared(arrays, mapped, call, call.wanted)
    letters = "qkvOLO" + call.given
    samples = _Samples(letters, arrays, mapped, call.wanted)
    joined = [samples.joined(letter, x, own, call.wanted) for letter, x, own in zip(letters, arrays, mapped)]
    batches = {letter: x.shape[1 if own else 0] for letter, x, own in zip(letters, arrays, mapped)}
    found = zip(call.wanted, bind(primitive, *joined, call=call))
    return [samples.parted(x, batches[letter]) for letter, x in found], zero

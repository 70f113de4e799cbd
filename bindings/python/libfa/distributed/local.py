"""The calls of one rank of libfa.distributed: partial results over some keys, merged in f32, and partial gradients, added in
f32.

Tensors are (batch, rows, heads, dim) and lse (batch, heads, rows); packed ones lack the batch.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import torch

from .. import dealt_rows
from ..attention import attention
from ..backward import backward
from ..dealt_rows import CAUSAL, Box, Masking, Rows
from ..merge import merge


class Setting(NamedTuple):
    """What a call is, apart from its tensors of rows."""

    rows: Rows  # of queries
    keys: Rows
    mask: Masking
    kv_heads: int
    slopes: Any
    keywords: dict[str, Any]  # of libfa.attention and libfa.backward

    def plan(self, rank: int, owner: int | None) -> Any:
        return dealt_rows.plan(self.rows, self.keys, self.mask, rank, owner, self.slopes is not None)

    def given(self, call: Any, batch: int, device: Any) -> dict[str, Any]:
        given = {**self.keywords, "causal": call.causal, "window": call.window, "alibi_slopes": self.slopes}
        if isinstance(call, Box):
            if call.offset is not None:
                given["q_offset"] = _ints((call.offset,) * batch, device)
        else:
            given.update(_packed(call.ends_q, call.ends_k, device))
            if call.offsets is not None:
                given["q_offset"] = _ints(call.offsets, device)
        return given

    def whole(self, device: Any) -> dict[str, Any]:
        """The keywords of one call of all rows in order."""
        given = {**self.keywords, "causal": CAUSAL[self.mask.causal], "window": (self.mask.left, self.mask.right)}
        if self.rows.packed:
            ends_q, ends_k = (tuple(itertools.accumulate(x.lengths, initial=0)) for x in (self.rows, self.keys))
            given.update(_packed(ends_q, ends_k, device))
        return given


class Saved(NamedTuple):
    """The tensors of the backward pass; the first four as the scheme returned them."""

    q: Any
    k: Any
    v: Any
    lse: Any
    sinks: Any
    out: Any


class Needs(NamedTuple):
    """The gradients that are wanted."""

    q: bool
    kv: bool
    sinks: bool


@functools.lru_cache(maxsize=1024)
def _ints(values: tuple[int, ...], device: Any) -> Any:
    return torch.tensor(values, dtype=torch.int32, device=device)


def _packed(ends_q: tuple[int, ...], ends_k: tuple[int, ...], device: Any) -> dict[str, Any]:
    """The keywords of packed sequences; GPUs are faster where they know the longest."""
    return {
        "cu_seqlens_q": _ints(ends_q, device),
        "cu_seqlens_k": _ints(ends_k, device),
        "max_seqlen_q": _longest(ends_q),
        "max_seqlen_k": _longest(ends_k),
    }


@functools.lru_cache(maxsize=1024)
def _longest(ends: tuple[int, ...]) -> int:
    return max((b - a for a, b in itertools.pairwise(ends)), default=0)


def _part(call: Any, side: str, *tensors: Any) -> list[Any]:
    """The rows of a call, of tensors (..., rows, heads, dim)."""
    if not isinstance(call, Box):
        return list(tensors)
    start, count = (call.q_start, call.q_count) if side == "q" else (call.k_start, call.k_count)
    return [x.narrow(-3, start, count) for x in tensors]


def _sums(call: Any, *tensors: Any) -> list[Any]:
    """As _part() of queries, of tensors (..., heads, rows)."""
    return [x.narrow(-1, call.q_start, call.q_count) for x in tensors] if isinstance(call, Box) else list(tensors)


class Partial:
    """out and lse of a rank's queries over the keys that it has seen so far, in f32. A sink is there from the beginning: as a
    part with a sum and without values."""

    def __init__(self, setting: Setting, q: Any, dim_v: int, sinks: Any) -> None:
        self.setting, self.q = setting, q
        rows, heads = q.shape[-3:-1]
        self.out = q.new_empty((*q.shape[:-1], dim_v), dtype=torch.float32)
        self.lse = q.new_empty((*q.shape[:-3], heads, rows), dtype=torch.float32)
        self.begun = False
        if sinks is not None:
            self._begin(sinks.detach().float()[:, None])

    def _begin(self, lse: Any) -> None:
        self.out.zero_()
        self.lse.copy_(lse.expand(self.lse.shape))
        self.begun = True

    def add(self, calls: Any, k: Any, v: Any) -> None:
        for call in calls:
            given = self.setting.given(call, self.q.shape[0], self.q.device)
            (q, out), (lse,), keys = _part(call, "q", self.q, self.out), _sums(call, self.lse), _part(call, "k", k, v)
            if not self.begun and lse.shape == self.lse.shape:
                attention(q, *keys, out=out, lse=lse, **given)
                self.begun = True
                continue
            if not self.begun:
                self._begin(self.lse.new_full((), float("-inf")))
            part, part_lse = attention(q, *keys, out_dtype=torch.float32, return_lse=True, **given)
            merge([out, part], [lse, part_lse], out=out, lse=lse, num_threads=given["num_threads"])

    def result(self) -> tuple[Any, Any]:
        """(out of q's type, lse)."""
        if not self.begun:
            self._begin(self.lse.new_full((), float("-inf")))
        return self.out.to(self.q.dtype), self.lse


def delta_of(out: Any, dout: Any, dlse: Any) -> Any:
    """fa.h's delta, less the gradient of lse, as only their difference occurs: (..., heads, rows)."""
    delta = (dout.float() * out.float()).sum(-1).transpose(-1, -2)
    return (delta if dlse is None else delta - dlse).contiguous()


def gradient_of_sinks(sinks: Any, lse: Any, delta: Any) -> Any:
    """The part of a rank's rows, f32 (heads,)."""
    terms = torch.exp(sinks.detach().float()[:, None] - lse) * -delta
    return terms.sum([i for i in range(terms.dim()) if i != terms.dim() - 2])


class Gradient:
    """The gradient of a rank's queries over the keys that it has seen so far, in f32; those of keys and values are written next
    to them. None where it is not wanted."""

    def __init__(self, setting: Setting, q: Any, lse: Any, dout: Any, delta: Any, wanted: bool) -> None:
        self.setting, self.q, self.lse, self.dout, self.delta = setting, q, lse, dout, delta
        self.dq = torch.zeros_like(q, dtype=torch.float32) if wanted else None

    def add(self, calls: Any, k: Any, v: Any, dk: Any, dv: Any) -> None:
        """dk and dv, f32, are added to; None: not wanted."""
        for call in calls:
            given = self.setting.given(call, self.q.shape[0], self.q.device)
            into = {}
            if self.dq is not None:
                into["dq"] = _part(call, "q", self.dq)[0]
            if dk is not None:
                into["dk"], into["dv"] = _part(call, "k", dk, dv)
            q, dout = _part(call, "q", self.q, self.dout)
            lse, delta = _sums(call, self.lse, self.delta)
            asked: dict[str, Any] = {name: into.get(name, False) for name in ("dq", "dk", "dv")}
            keys, values = _part(call, "k", k, v)
            backward(q, keys, values, None, lse, dout, delta=delta, accumulate=tuple(into), **asked, **given)

    def result(self) -> Any:
        return None if self.dq is None else self.dq.to(self.q.dtype)

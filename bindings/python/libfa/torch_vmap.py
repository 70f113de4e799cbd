"""torch.vmap of the operators of torch_operators.py: one call, whose batch is that of all samples. Sequences that are packed, in
pages or shared by kv_batch_idx are called one sample after another.
"""

from __future__ import annotations

from typing import Any

import torch

from . import fields
from .torch_operators import DIFFERENTIABLE, TENSORS, attention, attention_backward

_ONE_BY_ONE = ("cu_seqlens_q", "cu_seqlens_k", "kv_batch_idx", "block_table")
# Tensors whose first dimension is a batch, which may be 1 or left out.
_DIMENSIONS = {name: 4 if rules.form == "scores" else 2 for name, rules in fields.TENSORS.items() if rules.form != "pages"}


def _one_by_one(operator: Any, count: int, axes: Any, given: Any, keywords: Any) -> Any:
    def sample(i: int) -> Any:
        return operator(*(x if axis is None else x.select(axis, i) for x, axis in zip(given, axes)), **keywords)

    return tuple(torch.stack(found) for found in zip(*(sample(i) for i in range(count))))


class _Samples:
    """The inputs of all samples as those of one call, named as the operator's."""

    def __init__(self, count: int, inputs: dict[str, Any], axes: dict[str, Any], wanted: Any) -> None:
        self.count = count
        self.inputs = {name: x if axes[name] is None else x.movedim(axes[name], 0) for name, x in inputs.items()}
        self.mapped = {name for name in inputs if axes[name] is not None}
        self.wanted = set(wanted)
        self.batch = self.one("q").shape[0]
        self.shares_keys = not {"k", "v"} & (self.mapped | self.wanted)

    def one(self, name: str) -> Any:
        """The input of a sample."""
        return self.inputs[name][0] if name in self.mapped else self.inputs[name]

    def joined(self, name: str) -> Any:
        """(samples * batch, ...) of an input, or the input itself where one is for all."""
        if name == "kv_batch_idx" and self.shares_keys:
            return torch.arange(self.batch, dtype=torch.int32, device=self.inputs["q"].device).repeat(self.count)
        x = self.inputs[name]
        if x is None or (name in ("k", "v") and self.shares_keys):
            return x
        dimensions = _DIMENSIONS.get(name)
        if dimensions:
            if name not in self.mapped | self.wanted and (x.ndim < dimensions or x.shape[0] == 1):
                return x
            own = x.shape[1:] if name in self.mapped else x.shape
            x = x.reshape(*x.shape[: x.ndim - len(own)], *(1,) * (dimensions - len(own)), *own)
        if name not in self.mapped:
            x = x.unsqueeze(0)
        batch = self.batch if dimensions else x.shape[1]
        return x.expand(self.count, batch, *x.shape[2:]).flatten(0, 1)

    def parted(self, x: Any, name: str = "") -> Any:
        """(samples, batch, ...) of a result of all samples; a gradient has its input's shape."""
        x = x.unflatten(0, (self.count, -1))
        if not name:
            return x
        shape = self.one(name).shape
        if name in _DIMENSIONS and (len(shape) < _DIMENSIONS[name] or shape[0] == 1) and x.shape[1] > 1:
            x = x.sum(1, dtype=torch.float32).to(x.dtype)
        return x.reshape(self.count, *shape)


def _attention(info: Any, axes: Any, *given: Any, **keywords: Any) -> Any:
    names = ("q", "k", "v", *TENSORS)
    given = (*given, *(None,) * (len(names) - len(given)))
    axes = (*axes, *(None,) * (len(names) - len(axes)))
    inputs = dict(zip(names, given))
    if any(inputs[name] is not None for name in _ONE_BY_ONE):
        return _one_by_one(torch.ops.libfa.attention, info.batch_size, axes, given, keywords), (0, 0)
    samples = _Samples(info.batch_size, inputs, dict(zip(names, axes)), ())
    found = torch.ops.libfa.attention(*(samples.joined(name) for name in names), **keywords)
    return tuple(samples.parted(x) for x in found), (0, 0)


def _gradients(info: Any, axes: Any, *given: Any, wanted: Any, **keywords: Any) -> Any:
    names = ("dout", "dlse", "q", "k", "v", "out", "lse", *TENSORS)
    given = (*given, *(None,) * (len(names) - len(given)))
    axes = (*axes, *(None,) * (len(names) - len(axes)))
    zero = (0,) * len(DIFFERENTIABLE)
    inputs = dict(zip(names, given))
    if any(inputs[name] is not None for name in _ONE_BY_ONE):
        operator = torch.ops.libfa.attention_backward
        return _one_by_one(operator, info.batch_size, axes, given, dict(keywords, wanted=wanted)), zero
    of = [name for name, want in zip(DIFFERENTIABLE, wanted) if want]
    samples = _Samples(info.batch_size, inputs, dict(zip(names, axes)), of)
    found = torch.ops.libfa.attention_backward(*(samples.joined(name) for name in names), wanted=wanted, **keywords)
    empty = inputs["q"].new_empty(info.batch_size, 0)
    return tuple(samples.parted(x, name) if name in of else empty for x, name in zip(found, DIFFERENTIABLE)), zero


attention.register_vmap(_attention)
attention_backward.register_vmap(_gradients)

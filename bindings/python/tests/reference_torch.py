"""Attention of torch's tensors as the header's introduction states it, differentiable: with doubles, what gradients are compared
with."""

import torch


def attention(
    q, k, v, *, causal=False, window=(-1, -1), softcap=0.0, scale=None, bias=None, mask=None, slopes=None, sinks=None
):
    """(out, lse) of (batch, sequence, heads, dim), causal aligned bottom-right; lse means nothing in rows without keys."""
    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    x = torch.einsum("bihd,bjhd->bhij", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        x = softcap * torch.tanh(x / softcap)
    if bias is not None:
        x = x + bias
    rows, keys = x.shape[2:]
    distance = torch.arange(rows)[:, None] + keys - rows - torch.arange(keys)
    if slopes is not None:
        x = x - slopes.reshape(-1, x.shape[1], 1, 1) * distance.abs()
    seen = torch.ones(rows, keys, dtype=torch.bool)
    if causal:
        seen = seen & (distance >= 0)
    if window[0] >= 0:
        seen = seen & (distance <= window[0])
    if window[1] >= 0:
        seen = seen & (distance >= -window[1])
    if mask is not None:
        seen = seen & mask
    x = x.masked_fill(~seen, -1e30)  # no infinity, whose gradient would be none
    more = [] if sinks is None else [sinks.reshape(1, -1, 1, 1).expand(*x.shape[:3], 1).to(x.dtype)]
    lse = torch.cat([x, *more], -1).logsumexp(-1)
    p = torch.exp(x - lse[..., None]) * seen
    return torch.einsum("bhij,bjhd->bihd", p, v), lse

"""Attention in double precision, as the header's introduction states it, for (batch, sequence, heads, dim) in numpy."""

import numpy as np


def attention(
    q, k, v, *, causal=False, window=(-1, -1), softcap=0.0, scale=None, bias=None, mask=None, slopes=None, sinks=None
):
    """(out, lse), causal aligned bottom-right."""
    q, k, v = (np.asarray(x).astype("f8") for x in (q, k, v))
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat(group, 2), v.repeat(group, 2)
    x = np.einsum("bihd,bjhd->bhij", q, k) * (scale if scale is not None else q.shape[3] ** -0.5)
    if softcap:
        x = softcap * np.tanh(x / softcap)
    if bias is not None:
        x = x + np.asarray(bias).astype("f8")
    rows, keys = x.shape[2:]
    position = np.arange(rows)[:, None] + keys - rows
    key = np.arange(keys)[None]
    if slopes is not None:
        x = x - np.asarray(slopes).reshape(-1, x.shape[1], 1, 1) * abs(position - key)
    seen = np.ones((rows, keys), bool)
    if causal:
        seen &= key <= position
    if window[0] >= 0:
        seen &= key >= position - window[0]
    if window[1] >= 0:
        seen &= key <= position + window[1]
    if mask is not None:
        seen = seen & mask
    x = np.where(seen, x, -np.inf)
    most = x.max(-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        most = np.maximum(most, np.asarray(sinks, "f8").reshape(1, -1, 1, 1))
    safe = np.where(np.isinf(most), 0, most)
    p = np.exp(x - safe)
    total = p.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(np.asarray(sinks, "f8").reshape(1, -1, 1, 1) - safe)
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = safe[..., 0] + np.log(total[..., 0])
        p = np.where(total > 0, p / total, 0)
    return np.einsum("bhij,bjhd->bihd", p, v), lse

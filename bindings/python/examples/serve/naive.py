"""The same model without libfa, a cache, a batch or drafts. Keys and values are rounded to the codes of the cache, in plain NumPy, so
that nothing but the order of sums differs.
"""

import model as llama
import numpy as np


def _rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    a, b = np.split(x, 2, axis=-1)
    cos, sin = cos[: len(x), None], sin[: len(x), None]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def _rounded(x: np.ndarray) -> np.ndarray:
    """x (tokens, heads, dim) by way of 8-bit codes with a scale a token and head."""
    scale = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    return np.rint(x / scale) * scale


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    k, v = (x.repeat(q.shape[1] // k.shape[1], axis=1).astype(np.float64) for x in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / q.shape[2] ** 0.5
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v).astype(np.float32)


def logits(model: llama.Model, text: list[int], rounded: bool = True) -> np.ndarray:
    """(tokens, vocabulary): of the token after each one of the text. rounded: keys and values are those of the cache."""
    x = model.embedding[text]
    for layer in model.layers:
        q, k, v = layer.heads(x)
        q, k = (_rotated(part, model.cos, model.sin) for part in (q, k))
        k, v = (_rounded(k), _rounded(v)) if rounded else (k, v)
        x = layer.rest(x, _attention(q, k, v))
    return model.logits(x)


def best(model: llama.Model, text: list[int]) -> list[int]:
    """The most likely token after each one of the text."""
    return logits(model, text).argmax(-1).tolist()

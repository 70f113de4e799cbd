"""A decoder of Llama's shape in NumPy: RMSNorm, rotary embedding, grouped query attention, SwiGLU. Its weights are those of a package
(package.py), or random, yet the same everywhere: each is a hash of its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = 512
    width: int = 256
    layers: int = 4
    heads: int = 8
    kv_heads: int = 2
    dim: int = 32
    ffn: int = 512
    max_position: int = 1024
    rotary_base: float = 10000.0
    epsilon: float = 1e-5


def _random(tensor: int, rows: int, columns: int, scale: float = 1) -> np.ndarray:
    """(rows, columns), uniform, of variance 1 / rows: splitmix64 of the tensor's number and the element's."""
    with np.errstate(over="ignore"):
        x = np.arange(rows * columns, dtype=np.uint64) + (np.uint64(tensor) << np.uint64(32))
        x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    unit = (x >> np.uint64(40)).astype(np.float32) * np.float32(2**-23) - np.float32(1)
    return (unit * np.float32((3 / rows) ** 0.5) * np.float32(scale)).reshape(rows, columns)


def norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(epsilon)) * weight


@dataclass
class Layer:
    """Matrices are (inputs, outputs)."""

    sizes: Sizes
    before_attention: np.ndarray
    qkv: np.ndarray
    out: np.ndarray
    before_rest: np.ndarray
    gate: np.ndarray
    up: np.ndarray
    down: np.ndarray

    @classmethod
    def random(cls, sizes: Sizes, index: int) -> Layer:
        first, width, ffn = 1 + 5 * index, sizes.width, sizes.ffn
        rows, ones = sizes.heads * sizes.dim, np.ones(width, np.float32)
        qkv = _random(first, width, rows + 2 * sizes.kv_heads * sizes.dim)
        gate, up = _random(first + 2, width, ffn), _random(first + 3, width, ffn)
        return cls(sizes, ones, qkv, _random(first + 1, rows, width, 2), ones, gate, up, _random(first + 4, ffn, width))

    def heads(self, x: np.ndarray) -> list[np.ndarray]:
        """q (tokens, heads, dim), k and v (tokens, kv heads, dim): views of one array, which libfa reads where they are."""
        s = self.sizes
        rows = norm(x, self.before_attention, s.epsilon) @ self.qkv
        return np.split(rows.reshape(len(x), -1, s.dim), [s.heads, s.heads + s.kv_heads], axis=1)

    def rest(self, x: np.ndarray, attended: np.ndarray) -> np.ndarray:
        """What follows attention (tokens, heads, dim)."""
        x = x + attended.reshape(len(x), -1) @ self.out
        normed = norm(x, self.before_rest, self.sizes.epsilon)
        gate = normed @ self.gate
        return x + (gate / (1 + np.exp(-gate)) * (normed @ self.up)) @ self.down


class Model:
    def __init__(self, sizes: Sizes, embedding: np.ndarray, layers: list[Layer], last_norm: np.ndarray, head: np.ndarray):
        """embedding (vocabulary, width), head (width, vocabulary)."""
        self.sizes, self.embedding, self.layers, self.last_norm, self.head = sizes, embedding, layers, last_norm, head
        pairs = sizes.dim // 2
        angles = np.outer(np.arange(sizes.max_position), sizes.rotary_base ** -(np.arange(pairs) / pairs))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    @classmethod
    def random(cls) -> Model:
        sizes = Sizes()
        embedding = _random(0, sizes.vocabulary, sizes.width, sizes.vocabulary**0.5)
        layers = [Layer.random(sizes, i) for i in range(sizes.layers)]
        head = _random(1 + 5 * sizes.layers, sizes.width, sizes.vocabulary)
        return cls(sizes, embedding, layers, np.ones(sizes.width, np.float32), head)

    def logits(self, x: np.ndarray) -> np.ndarray:
        return norm(x, self.last_norm, self.sizes.epsilon) @ self.head

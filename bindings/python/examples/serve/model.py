"""A decoder of Llama's shape in NumPy: RMSNorm, rotary embedding, grouped query attention, SwiGLU. Its weights are random, yet the
same everywhere: each is a hash of its place.
"""

import numpy as np

VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, DIM, FFN = 512, 256, 4, 8, 2, 32, 512
MAX_POSITION, ROTARY_BASE = 1024, 10000.0


def _weights(tensor: int, rows: int, columns: int) -> np.ndarray:
    """(rows, columns), uniform, of variance 1 / rows: splitmix64 of the tensor's number and the element's."""
    with np.errstate(over="ignore"):
        x = np.arange(rows * columns, dtype=np.uint64) + (np.uint64(tensor) << np.uint64(32))
        x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    unit = (x >> np.uint64(40)).astype(np.float32) * np.float32(2**-23) - np.float32(1)
    return (unit * np.float32((3 / rows) ** 0.5)).reshape(rows, columns)


def _norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5))


class Layer:
    def __init__(self, index: int):
        first = 1 + 5 * index
        self.qkv = _weights(first, WIDTH, (HEADS + 2 * KV_HEADS) * DIM)
        self.out = _weights(first + 1, HEADS * DIM, WIDTH)
        self.gate, self.up = _weights(first + 2, WIDTH, FFN), _weights(first + 3, WIDTH, FFN)
        self.down = _weights(first + 4, FFN, WIDTH)

    def heads(self, x: np.ndarray) -> list[np.ndarray]:
        """q (tokens, HEADS, DIM), k and v (tokens, KV_HEADS, DIM): views of one array, which libfa reads where they are."""
        return np.split((_norm(x) @ self.qkv).reshape(len(x), -1, DIM), [HEADS, HEADS + KV_HEADS], axis=1)

    def rest(self, x: np.ndarray, attended: np.ndarray) -> np.ndarray:
        """What follows attention (tokens, HEADS, DIM)."""
        x = x + 2 * attended.reshape(len(x), -1) @ self.out
        gate = _norm(x) @ self.gate
        return x + (gate / (1 + np.exp(-gate)) * (_norm(x) @ self.up)) @ self.down


class Model:
    def __init__(self) -> None:
        self.embedding = _weights(0, VOCABULARY, WIDTH) * np.float32(VOCABULARY**0.5)
        self.layers = [Layer(i) for i in range(LAYERS)]
        self.head = _weights(1 + 5 * LAYERS, WIDTH, VOCABULARY)
        angles = np.outer(np.arange(MAX_POSITION), ROTARY_BASE ** -(np.arange(DIM // 2) / (DIM // 2)))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def logits(self, x: np.ndarray) -> np.ndarray:
        return _norm(x) @ self.head

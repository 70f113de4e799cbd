"""The uses of each of Triton's kernels: how it is compiled for a GPU, run, and compared with numpy."""

import dataclasses
import math

import numpy as np

POINTER = "*fp16"


def random(seed, *shape):
    """Values between -1 and 1 that 16-bit floats can hold."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float16)


def reference(q, k, v, causal):
    """Attention of one head a row of the first axis, and the logarithms of its sums, in double precision."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return weights @ v / total, (np.log(total) + top)[..., 0]


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel, and the constants of its compilation. `aligned`: integers that are multiples of 16."""

    kernel: str = "softmax"
    dim: int = 64
    causal: bool = False
    specialized: bool = False  # warps of a block take roles
    warps: int = 4
    stages: int = 2
    sms: tuple = (75, 80, 90, 100, 120)
    aligned: tuple = ()

    def options(self, _sm):
        """How many warps, and how many tiles are in flight."""
        return {"num_warps": self.warps, "num_stages": self.stages}


class Attention(Case):
    """Loads by pointers; a length that no tile divides."""

    heads, tokens = 2, 200

    def signature(self, _sm):
        return {
            **dict.fromkeys("qkvo", POINTER),
            "lse": "*fp32",
            "tokens": "i32",
            "scale": "fp32",
            "DIM": "i32",
            "ROWS": "i32",
            "COLUMNS": "i32",
            "CAUSAL": "i1",
        }

    def constants(self, sm):
        return {"DIM": self.dim, "ROWS": 64 if sm == 75 else 128, "COLUMNS": 64 if sm != 75 else 32, "CAUSAL": self.causal}

    def inputs(self):
        return [random(seed, self.heads, self.tokens, self.dim) for seed in range(3)]

    def run(self, launch, arrays, sm):
        q, k, v = self.inputs()
        o, lse = arrays.empty(q.shape, np.float16), arrays.empty(q.shape[:2], np.float32)
        launch(
            (-(-self.tokens // self.constants(sm)["ROWS"]), self.heads),
            [*map(arrays.of, (q, k, v)), o, lse, self.tokens, 1 / math.sqrt(self.dim)],
        )
        wanted, wanted_lse = reference(q, k, v, self.causal)
        return [("O", o.host(), wanted, 2e-3), ("LSE", lse.host(), wanted_lse, 1e-3)]


class AttentionDescribed(Attention):
    """Loads and stores through tensor maps; a length of full tiles."""

    tokens = 384

    def signature(self, sm):
        rows, columns = (self.constants(sm)[name] for name in ("ROWS", "COLUMNS"))
        tall, wide = (f"tensordesc<fp16[{height},{self.dim}]>" for height in (rows, columns))
        return {
            "desc_q": tall,
            "desc_k": wide,
            "desc_v": wide,
            "desc_o": tall,
            "lse": "*fp32",
            "tokens": "i32",
            "scale": "fp32",
            "DIM": "i32",
            "ROWS": "i32",
            "COLUMNS": "i32",
            "CAUSAL": "i1",
            "SPECIALIZED": "i1",
        }

    def constants(self, sm):
        return {"DIM": self.dim, "ROWS": 128, "COLUMNS": 64, "CAUSAL": self.causal, "SPECIALIZED": self.specialized}

    def run(self, launch, arrays, sm):
        q, k, v = self.inputs()
        flat = [x.reshape(-1, self.dim) for x in (q, k, v)]
        o, lse = arrays.empty(flat[0].shape, np.float16), arrays.empty(q.shape[:2], np.float32)
        described = [arrays.described(x, at) for at, x in enumerate([*map(arrays.of, flat), o])]
        launch(
            (self.tokens // 128, self.heads),
            [value for one in described for value in one] + [lse, self.tokens, 1 / math.sqrt(self.dim)],
        )
        wanted, wanted_lse = reference(q, k, v, self.causal)
        return [("O", o.host().reshape(q.shape), wanted, 2e-3), ("LSE", lse.host(), wanted_lse, 1e-3)]


class Matmul(Case):
    """Sizes that no tile divides."""

    size = (200, 136, 120)

    def signature(self, _sm):
        return {
            **dict.fromkeys("abc", POINTER),
            **dict.fromkeys("mnk", "i32"),
            **dict.fromkeys(("ROWS", "COLUMNS", "STEP", "GROUP"), "i32"),
        }

    def constants(self, _sm):
        return {"ROWS": 64, "COLUMNS": 64, "STEP": 32, "GROUP": 2}

    def run(self, launch, arrays, sm):
        m, n, k = self.size
        a, b = random(1, m, k), random(2, k, n)
        c = arrays.empty((m, n), np.float16)
        launch((-(-m // 64) * -(-n // 64),), [arrays.of(a), arrays.of(b), c, m, n, k])
        return [("C", c.host(), a.astype(np.float64) @ b.astype(np.float64), 2e-3)]


class MatmulPersistent(Matmul):
    """Two blocks do all tiles, with tensor maps that they make in global memory."""

    size = (512, 256, 192)

    def signature(self, _sm):
        return {
            **dict.fromkeys("abc", POINTER),
            **dict.fromkeys("mnk", "i32"),
            **dict.fromkeys(("ROWS", "COLUMNS", "STEP", "BLOCKS"), "i32"),
            "SPECIALIZED": "i1",
        }

    def constants(self, _sm):
        return {"ROWS": 128, "COLUMNS": 128, "STEP": 64, "BLOCKS": 2, "SPECIALIZED": self.specialized}

    def run(self, launch, arrays, sm):
        m, n, k = self.size
        a, b = random(1, m, k), random(2, n, k)
        c = arrays.empty((m, n), np.float16)
        launch((2,), [arrays.of(a), arrays.of(b), c, m, n, k])
        return [("C", c.host(), a.astype(np.float64) @ b.astype(np.float64).T, 2e-3)]


class Softmax(Case):
    """Rows narrower than the block."""

    def signature(self, _sm):
        return {"x": "*fp32", "y": "*fp32", "columns": "i32", "stride": "i32", "WIDTH": "i32"}

    def constants(self, _sm):
        return {"WIDTH": 1024}

    def run(self, launch, arrays, sm):
        x = random(1, 9, 784).astype(np.float32) * 8
        y = arrays.empty(x.shape, np.float32)
        launch((9,), [arrays.of(x), y, 784, 784])
        weights = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return [("softmax", y.host(), weights / weights.sum(1, keepdims=True), 1e-5)]


class Histogram(Case):
    """Counts by atomics."""

    def signature(self, _sm):
        return {"x": "*i32", "counts": "*i32", "n": "i32", "BINS": "i32", "WIDTH": "i32"}

    def constants(self, _sm):
        return {"BINS": 64, "WIDTH": 512}

    def run(self, launch, arrays, sm):
        x = np.random.default_rng(1).integers(0, 64, 2000, dtype=np.int32)
        counts = arrays.of(np.zeros(64, np.int32))
        launch((4,), [arrays.of(x), counts, 2000])
        return [("counts", counts.host(), np.bincount(x, minlength=64), 0)]


class Scan(Case):
    """Running sums and a sort within rows: shuffles and exchanges through shared memory."""

    def signature(self, _sm):
        return {"x": "*i32", "sums": "*i32", "order": "*i32", "WIDTH": "i32"}

    def constants(self, _sm):
        return {"WIDTH": 1024}

    def run(self, launch, arrays, sm):
        x = np.random.default_rng(1).integers(-99, 99, (3, 1024), dtype=np.int32)
        sums, order = arrays.empty(x.shape, np.int32), arrays.empty(x.shape, np.int32)
        launch((3,), [arrays.of(x), sums, order])
        return [("sums", sums.host(), x.cumsum(1), 0), ("order", order.host(), np.sort(x), 0)]


TMA = (90, 100, 120)
CASES = {
    "attention": Attention("attention", dim=64, causal=True),
    "attention_128": Attention("attention", dim=128, warps=8, sms=(80, 90, 100)),
    "attention_described": AttentionDescribed("attention_described", causal=True, sms=TMA, stages=3),
    "attention_specialized": AttentionDescribed("attention_described", specialized=True, sms=(100,), stages=3),
    "matmul": Matmul("matmul", stages=3),
    "matmul_persistent": MatmulPersistent("matmul_persistent", sms=(90, 100, 120), stages=3, aligned=("k", "n")),
    "matmul_specialized": MatmulPersistent("matmul_persistent", specialized=True, sms=(90, 100), stages=3, aligned=("k", "n")),
    "softmax": Softmax("softmax", sms=(75, 90)),
    "histogram": Histogram("histogram", sms=(75, 100)),
    "scan": Scan("scan", sms=(75, 80)),
}

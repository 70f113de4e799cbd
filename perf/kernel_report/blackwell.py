"""Blackwell's kernels on tensor memory by the model: an iteration of all roles, FlashAttention-4's by its machine code, and how near
the model is to its published figures. Nothing here was measured by this project.

Figures: NVIDIA's cudnn-frontend, benchmark/attention_training/results, files of 28 September 2026 (FlashAttention-4 and cuDNN
9.27, 2 sequences; Llama 3.1: 64 heads, 8 of keys, head dimension 128; DeepSeek V3: 128 heads, 192 and 128 for values). They
name the peak at the clock that was sampled during the measurements, 2568 TFLOP/s on a GB200 and 2578 on a GB300: 152
multiprocessors at 2.0625 and 2.07 GHz. The paper's best on a B200 is 1613 TFLOP/s, taken as of its longest sequence, 16 heads
of 32768 tokens; for the 148 multiprocessors the clock that NVIDIA's driver reports as the highest is taken, 1.965 GHz.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from . import images, model
from .rates import Gpu, Rates
from .roles import PRODUCT, ROWS, TILES, Role, roles, unit_cycles

FILE = Path(__file__).with_name("fa4.json")
KEYS = 128  # of a tile of FlashAttention-4's
PRODUCTS = 8192  # operations a clock of an SM, dense, f16 or bf16

# Tensor memory to registers: no published figure of a warp's; a register of its lanes a cycle is assumed.
RATES = {
    100: Rates(mma=0, fp32=1, l2_bytes=42, shared_memory=228 << 10, warps=64, blocks=32),
    103: Rates(mma=0, fp32=1, mufu=4, l2_bytes=42, shared_memory=228 << 10, warps=64, blocks=32),
}
GPUS = {
    "B200": Gpu(100, 148, 1.965, 8000),
    "GB200": Gpu(100, 152, 2.0625, 8000),
    "GB300": Gpu(103, 152, 2.0704, 8000),
}


def peak(gpu: Gpu) -> float:
    """TFLOP/s, dense, f16 or bf16."""
    return PRODUCTS * gpu.sms * gpu.clock / 1000


@dataclass(frozen=True)
class Counts:
    """The load of a sub-core in an iteration of a block, the one with the product warp, at the rates of SM 100."""

    name: str
    dim: int
    dim_v: int
    issued: dict[str, int]  # of a warp, by role
    units: dict[str, float]
    ctas: int = 1  # that share keys and values, 2 where products are of a pair
    keys: int = KEYS  # of a tile
    tiles: int = TILES  # of queries
    feature: str = ""  # that is switched on
    dtype: str = "bf16"
    multicast: int = 1  # blocks that each tile of keys or values is brought to at once

    @property
    def sm(self) -> int:
        """That the code is for."""
        return 103 if self.name.startswith("sm_103") else 100

    @property
    def a_score(self) -> float:
        return self.issued["softmax"] / self.keys

    def iteration(self, sm: int, fit: model.Fit = model.FITTED) -> model.Iteration:
        units = dict(self.units)
        units["MUFU"] *= RATES[sm].mufu / RATES[100].mufu  # which counts() has taken
        ideal = self.tiles * 2 * ROWS * self.keys * (self.dim + self.dim_v) / PRODUCTS
        units["tensor"] = ideal
        moved = self.keys * (self.dim + self.dim_v) * 2 / self.ctas
        units["shared"] += moved / RATES[sm].shared_bytes  # by TMA; reads of products are part of theirs
        units["L2"] = moved / RATES[sm].l2_bytes / self.multicast
        return model.Iteration(units, ideal, 1, self.tiles * ROWS, self.keys, fit=fit)


def counts(
    name: str,
    dim: int,
    dim_v: int,
    found: list[Role],
    keys: int = KEYS,
    tiles: int = TILES,
    feature: str = "",
    dtype: str = "bf16",
) -> Counts:
    units: dict[str, float] = {}
    for role in found:
        for unit, time in unit_cycles(role.iteration, RATES[100]).items():
            units[unit] = units.get(unit, 0) + role.warps * time
    units.pop("tensor")
    pairs = any(i.opcode == PRODUCT and ".2CTA" in i.modifiers for role in found for i in role.iteration)
    return Counts(
        name,
        dim,
        dim_v,
        {role.name: len(role.iteration) for role in found},
        units,
        2 if pairs else 1,
        keys,
        tiles,
        feature,
        dtype,
    )


def read(path: Path, tools: Path, name: str, dim: int, dim_v: int) -> Counts:
    """The counts of a cubin with one kernel of FlashAttention-4's."""
    (function,) = [f for f in images.functions(path, tools) if any(i.opcode == PRODUCT for i in f.instructions)]
    return counts(name, dim, dim_v, roles(function, dim, dim_v, KEYS, True))


def read_all(folder: Path, tools: Path) -> list[Counts]:
    """FlashAttention-4's, of cubins named sm_100.192.128.causal.cubin."""
    found = []
    for path in sorted(folder.glob("sm_*.cubin")):
        arch, dim, dim_v, mask = path.stem.split(".")
        found.append(read(path, tools, f"{arch} {dim}/{dim_v} {mask}", int(dim), int(dim_v)))
    if not found:
        raise SystemExit(f"{folder}: no cubins named like sm_100.128.128.causal.cubin")
    return found


def write(found: list[Counts]) -> None:
    FILE.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")


def kept() -> dict[str, Counts]:
    """FlashAttention-4's, by mask and head dimension."""
    return {one["name"]: Counts(**one) for one in json.loads(FILE.read_text())}


def teraflops(of: Counts, gpu: str, sequence: int, heads: int, causal: bool) -> float:
    """The rate of a call with as many queries as keys."""
    iteration, board = of.iteration(GPUS[gpu].sm), GPUS[gpu]
    tiles = model.iterations(sequence, sequence, iteration.rows, iteration.keys, causal)
    flops = 2 * sequence * sequence * (of.dim + of.dim_v) * heads / (2 if causal else 1)
    return flops / model.seconds(iteration, board, tiles, heads, (of.dim + of.dim_v) // 2, causal) / 1e12


HEADS = 128  # of both sequences
SEQUENCES = (4096, 8192, 16384)


@dataclass(frozen=True)
class Published:
    """FlashAttention-4's speed and cuDNN 9.27's."""

    gpu: str
    sequence: int
    causal: bool
    teraflops: float
    cudnn: float  # 0: not published
    heads: int = HEADS
    dim: int = 128
    dim_v: int = 128

    @property
    def modelled(self) -> float:
        of = loop_of(self.dim, self.dim_v, self.causal, GPUS[self.gpu].sm)
        return teraflops(of, self.gpu, self.sequence, self.heads, self.causal)

    @property
    def error(self) -> float:
        return self.modelled / self.teraflops - 1


def rows(gpu: str, causal: bool, flash: list[float], cudnn: list[float], **others: int) -> list[Published]:
    return [Published(gpu, s, causal, ours, theirs, **others) for s, ours, theirs in zip(SEQUENCES, flash, cudnn, strict=True)]


# Calls of less than 0.2 ms end before the last block of each multiprocessor counts for little; those of 32768 tokens, of 20 to
# 45 ms, are slower than shorter ones on a GB200, cuDNN's too: its clock falls, and no figure says how far.
PUBLISHED = [
    *rows("GB200", True, [1334, 1576, 1658], [1319, 1559, 1609]),
    *rows("GB200", False, [1522, 1695, 1636], [1560, 1702, 1662]),
    *rows("GB300", True, [1657, 1888, 2001], [1738, 1886, 1986]),
    *rows("GB300", False, [2011, 2116, 2138], [2031, 2115, 2112]),
    *rows("GB200", True, [1400, 1591, 1687], [1369, 1597, 1683], heads=256, dim=192),
    *rows("GB200", False, [1682, 1796, 1815], [1685, 1776, 1789], heads=256, dim=192),
    Published("B200", 32768, False, 1613, 0, heads=16),
]
OTHERS = [
    *(Published("GB200", s, causal, flash, cudnn) for s, causal, flash, cudnn in (
        (2048, True, 1048, 1046), (2048, False, 1387, 1402), (32768, True, 1611, 1593), (32768, False, 1510, 1558))),
    *(Published("GB300", s, causal, flash, cudnn) for s, causal, flash, cudnn in (
        (2048, True, 1276, 1420), (2048, False, 1904, 1871), (32768, True, 2018, 2040), (32768, False, 2069, 2057))),
]  # fmt: skip


def loop_of(dim: int, dim_v: int, causal: bool, sm: int) -> Counts:
    """FlashAttention-4's for a call: the one kept for this SM, or else for SM 100."""
    mask, names = "causal" if causal else "full", kept()
    own = f"sm_{sm} {dim}/{dim_v} {mask}"
    return names.get(own) or names[f"sm_100 {dim}/{dim_v} {mask}"]


def has_loop(dim: int, dim_v: int) -> bool:
    return f"sm_100 {dim}/{dim_v} full" in kept()

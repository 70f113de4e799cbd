"""The time of calls by the simulated cycles of a work tile, and simulated speeds next to those that were published or measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import model
from .backward import ALL_PRODUCTS
from .nest import L2_LATENCY
from .rates import Gpu

KEYS = 128  # of a block of gradients


@dataclass(frozen=True)
class Call:
    """As many queries as keys. heads: of all sequences; group: of those that share keys."""

    heads: int
    rows: int
    causal: bool = False
    fixed_order: bool = False
    group: int = 1

    @property
    def text(self) -> str:
        return f"{self.heads} x {self.rows}{' causal' * self.causal}{' in a fixed order' * self.fixed_order}"


def operations(call: Call, dim: float, products: int) -> float:
    return 2 * products * call.heads * call.rows**2 * dim / (2 if call.causal else 1)


@dataclass(frozen=True)
class Tile:
    """A work tile of a forward kernel, in simulated cycles."""

    rows: int
    keys: int
    columns: int  # of queries and values together
    outside: float
    iteration: float


@dataclass(frozen=True)
class Block:
    """A block of a backward kernel, in simulated cycles."""

    queries: int  # of a step
    dim: int
    outside: float
    step: float
    hop: float | None = None  # from an addition to the next one, in a fixed order
    loops_over_group: bool = False


def forward(of: Tile, gpu: Gpu, call: Call) -> float:
    """TFLOP/s. Full masks: whole waves of tiles; causal ones: longest first, to whichever block is free."""
    tiles = model.iterations(call.rows, call.rows, of.rows, of.keys, call.causal)
    cycles = [of.outside + (n + masked * (model.MASKED - 1)) * of.iteration for n, masked in tiles]
    total = sum(cycles) * call.heads / gpu.sms if call.causal else math.ceil(len(tiles) * call.heads / gpu.sms) * max(cycles)
    return operations(call, of.columns / 2, 2) / (max(total, *cycles) / gpu.sustained_hertz) / 1e12


def backward(of: Block, gpu: Gpu, call: Call) -> float:
    """TFLOP/s of the five products."""
    tiles = model.iterations(call.rows, call.rows, KEYS, of.queries, call.causal)
    group = call.group if of.loops_over_group else 1
    steps = [group * (n + masked * (model.MASKED - 1)) for n, masked in tiles]
    cycles = end(steps, call.heads // group, gpu.sms, of.outside, of.step, of.hop)
    results = 2 * 2 * call.heads * call.rows * of.dim  # dout and out, for the terms of rows, and dq in f32, cleared, read, written
    seconds = cycles / gpu.sustained_hertz + (results + 2.5 * results) / (gpu.dram * 1e9)
    return operations(call, of.dim, ALL_PRODUCTS) / seconds / 1e12


def hop(queries: int, dim: int, l2_bytes: float) -> float:
    """Cycles from an addition to the next one: the L2 cache is asked, sums are added and are there, the next block is let add."""
    return 3 * L2_LATENCY + 4 * queries * dim / l2_bytes


def end(steps: list[float], columns: int, slots: int, outside: float, step: float, hop: float | None) -> float:
    """Cycles until the last block ends; steps: of the blocks of a column. hop: blocks of a column add in their order, all of them from
    the same rows on, and a step ends no earlier than the one before it has been added."""
    free = [0.0] * slots
    for _ in range(columns):
        before: list[float] = []
        for count in sorted(steps, reverse=True) if hop is None else steps:
            slot = min(range(slots), key=free.__getitem__)
            if hop is None:
                free[slot] += outside + count * step
                continue
            now, added, passed = free[slot], 0.0, []
            for n in range(math.ceil(count)):
                now = max(now + min(step, (count - n) * step), added)
                added = max(now, before[n] if n < len(before) else 0)
                passed.append(added + hop)
            before = passed
            free[slot] = max(now, passed[-1] - hop) + outside
    return max(free)

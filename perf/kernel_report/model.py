"""The model: from the load of each unit in a steady iteration to the fraction of the tensor cores' peak, and to TFLOP/s of a
shape. perf/kernel-model.md has the rules and how they were held to other kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .rates import SUB_CORES, Gpu, Rates, cycles, unit
from .sass import Instruction


@dataclass(frozen=True)
class Fit:
    """The model's numbers, but for MASKED: fitted to the figures in peers.py (fit.py)."""

    overlap: float  # T = (sum of t^overlap over the units)^(1/overlap): 1 is no overlap at all, infinity is perfect
    fixed: float  # cycles of a row tile outside its iterations
    moved: float  # and for queries in and results out of 128 x 128


FITTED = Fit(2.3, 500, 2500)

# The traffic of a ring of tiles while others are worked on: no warp waits for it unless it takes longest.
MEMORY = ("L2", "DRAM")

# An iteration with masks takes this much longer (its body has about as many more instructions).
MASKED = 1.3


@dataclass(frozen=True)
class Iteration:
    """The load of all warps of an SM in one iteration each, in cycles of a sub-core; `tensor` as well."""

    units: dict[str, float]
    ideal: float  # cycles of the tensor core for the two products alone
    blocks: int  # of an SM
    rows: int  # of a block's tile
    keys: int
    least: float = 0  # cycles that a block's waits take in any case; 0: it waits for nothing
    fit: Fit = FITTED

    @property
    def cycles(self) -> float:
        p = self.fit.overlap
        together = math.pow(sum(t**p for name, t in self.units.items() if name not in MEMORY), 1 / p)
        return max(together, self.least, *(self.units.get(name, 0) for name in MEMORY))

    @property
    def limit(self) -> str:
        """The unit that the iteration waits for most, or `waits` where a block's waits cost most."""
        unit = max(self.units, key=lambda name: self.units[name])
        return "waits" if self.units[unit] < self.least == self.cycles else unit

    def of_peak(self, gpu: Gpu) -> float:
        """Fraction of the tensor peak in steady iterations, at the clock that the GPU sustains in products."""
        return self.ideal / self.cycles * gpu.sustained


def unit_cycles(loop: list[Instruction], rates: Rates, mma_factor: float = 1) -> dict[str, float]:
    """Cycles for which a warp's iteration holds each unit of its sub-core."""
    units = {"tensor": 0.0, "MUFU": 0.0, "FP32": 0.0, "ALU": 0.0, "shared": 0.0, "issue": float(len(loop))}
    for i in loop:
        if (of := unit(i.opcode)) != "issue":
            units[of] += cycles(rates, i.opcode, i.modifiers, mma_factor)
    return units


def min_blocks_per_sm(rates: Rates, registers: int, threads: int, shared_bytes: int) -> int:
    """Blocks that fit. Registers are given in units of 256 a warp, to each sub-core its own; a block takes 1 KB of
    shared memory in addition to its own from SM 80 on."""
    warps = threads // 32
    by_registers = rates.registers // SUB_CORES // (math.ceil(registers / 8) * 256) * SUB_CORES // warps
    reserved = 0 if rates.warps == 32 else 1024
    by_memory = rates.shared_memory // (shared_bytes + reserved) if shared_bytes else rates.blocks
    return min(by_registers, by_memory, rates.warps // warps, rates.blocks)


def tile_bytes(keys: int, dim: int) -> int:
    """The bytes of keys and values that an iteration brings in."""
    return keys * 2 * dim * 2


def iterations(queries: int, keys: int, rows: int, tile_keys: int, causal: bool) -> list[tuple[int, int]]:
    """For each tile of rows its (iterations, iterations with masks); the diagonal ends at the last key."""
    result = []
    for first in range(0, queries, rows):
        if not causal:
            result.append((math.ceil(keys / tile_keys), 1 if keys % tile_keys else 0))
            continue
        last = min(first + rows, queries) + keys - queries  # keys of the last row
        plain = (first + 1 + keys - queries) // tile_keys
        count = math.ceil(last / tile_keys)
        result.append((count, count - plain))
    return result


def tile_cycles(iteration: Iteration, tiles: list[tuple[int, int]], dim: int, moved: float = 1) -> list[float]:
    """The cycles of each tile. moved: pairs of tiles that a block reads or writes outside its iterations."""
    outside = iteration.fit.fixed + moved * iteration.fit.moved * iteration.rows * dim / (128 * 128)
    return [(n + masked * (MASKED - 1)) * iteration.cycles + outside for n, masked in tiles]


def seconds(
    iteration: Iteration, gpu: Gpu, tiles: list[tuple[int, int]], columns: int, dim: int, even: bool, moved: float = 1
) -> float:
    """The time of a launch whose columns (heads of sequences) have these tiles each. A call ends with its last wave of blocks;
    an even one, longest tiles first, ends evenly."""
    cost = tile_cycles(iteration, tiles, dim, moved)
    slots = gpu.sms * iteration.blocks
    # An iteration's cycles are for all blocks of the SM at once.
    if even:
        total = max(sum(cost) * columns / slots, max(cost))
    else:
        total = math.ceil(len(tiles) * columns / slots) * max(cost)
    return total / gpu.sustained_hertz


def teraflops(iteration: Iteration, gpu: Gpu, sequence: int, dim: int, batch_heads: int, causal: bool) -> float:
    """The rate of a call with as many queries as keys, which memory does not bound."""
    tiles = iterations(sequence, sequence, iteration.rows, iteration.keys, causal)
    flops = 4 * sequence * sequence * dim * batch_heads / (2 if causal else 1)
    return flops / seconds(iteration, gpu, tiles, batch_heads, dim, causal) / 1e12


def default_gpu(sm: int, warpgroups: bool = False) -> str | None:
    """The GPU that represents an SM; warpgroups: of a kernel in which they multiply."""
    names = {75: "T4", 80: "A100", 86: "A10", 89: "L4", 90: "H100 mma.sync", 120: "RTX PRO 6000"}
    return "H100 wgmma" if warpgroups and sm == 90 else names.get(sm)

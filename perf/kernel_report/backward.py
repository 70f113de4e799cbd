"""The backward pass: the load of an SM in an iteration of its loops, by machine code, and the time of a call. A block owns a tile
of keys or of queries and walks through the other, tile by tile."""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import dq_order, loops, model
from .images import Image, Tile
from .rates import RATES, SUB_CORES, Gpu
from .sass import Function, Instruction
from .way import shortest

KEYS, QUERIES, ALL = "fa_backward_dkv", "fa_backward_dq", "fa_backward_fused"  # entry points; the last adds to dq in memory
PRODUCTS = {KEYS: 4, QUERIES: 3, ALL: 5}  # of a tile of queries with one of keys
ALL_PRODUCTS = 5  # that gradients need
MOVED = {KEYS: 4, QUERIES: 3, ALL: 4}  # owned tiles that a block reads or writes; forward's are two


@dataclass(frozen=True)
class Call:
    """As many queries as keys; heads are of one sequence."""

    batch: int
    heads: int
    heads_kv: int
    rows: int
    dim: int
    causal: bool

    @property
    def operations(self) -> float:
        """The operations of the five products."""
        return 2 * ALL_PRODUCTS * self.batch * self.heads * self.rows * self.rows * self.dim / (2 if self.causal else 1)

    @property
    def elements(self) -> int:
        """The elements of q, and of whatever has its shape."""
        return self.batch * self.heads * self.rows * self.dim

    @property
    def text(self) -> str:
        return f"{self.batch} x {self.heads}/{self.heads_kv} x {self.rows} x {self.dim}{', causal' if self.causal else ''}"


@dataclass(frozen=True)
class Iteration:
    """An iteration of a loop: each way that warps take through it (a pair's two differ), in instructions of a warp."""

    ways: list[list[Instruction]]
    tile: Tile
    owned: int
    walked: int

    @property
    def issued(self) -> float:
        return sum(map(len, self.ways)) / len(self.ways)

    def count(self, opcode: str) -> float:
        return sum(i.opcode == opcode for way in self.ways for i in way) / len(self.ways)

    @property
    def scores(self) -> float:
        """The scores of a lane."""
        return self.owned * self.walked / self.tile.threads

    def on(self, image: Image, function: Function, gpu: Gpu | None = None) -> model.Iteration:
        """Its load of an SM."""
        rates = RATES[image.sm]
        factor = gpu.mma_factor if gpu else 1
        blocks = model.min_blocks_per_sm(rates, function.registers, self.tile.threads, self.tile.shared_bytes)
        warps = blocks * self.tile.threads / 32 / SUB_CORES  # of a sub-core; where six share four, some have more
        units: dict[str, float] = {}
        for way in self.ways:
            for unit, cycles in model.unit_cycles(way, rates, factor).items():
                of_unit = warps if unit == "shared" else math.ceil(warps)
                units[unit] = units.get(unit, 0) + of_unit * cycles / len(self.ways)
        added = 4 * self.walked * image.dim if function.name == ALL else 0
        units["L2"] = blocks * (model.tile_bytes(self.walked, image.dim) + added) / rates.l2_bytes
        ideal = warps * tensor_ideal(image, self, function.name) * rates.mma * factor
        return model.Iteration(units, ideal, blocks, self.owned, self.walked)


def depth(image: Image) -> int:
    return 8 if image.sm == 75 else 16


def tensor_ideal(image: Image, iteration: Iteration, entry: str) -> float:
    """Tensor-core instructions of a warp."""
    products = PRODUCTS[entry] * iteration.owned * iteration.walked * image.dim / (16 * 8 * depth(image))
    return products / (iteration.tile.threads / 32)


def waits_for_copies(image: Image, function: Function) -> bool:
    """True where SM 75 has no registers for the operands of the next step: each step waits for its own copies, of which the rules
    know nothing. Those that are asked for ahead are loads of 16 bytes from global memory."""
    return image.sm == 75 and not any(f"{i.opcode}{i.modifiers}".startswith("LDG.E.128") for i in function.instructions)


def iteration(image: Image, function: Function, tile: Tile) -> Iteration | None:
    """The way through a step without masks. None where there is no tensor-core loop."""
    found = loops.steady_loop(function)
    if found is None:
        return None
    keys = function.name != QUERIES
    owned, walked = (tile.keys, tile.rows) if keys else (tile.rows, tile.keys)
    warps = tile.threads // 32
    multiply = PRODUCTS[function.name] * owned * walked * image.dim // (16 * 8 * depth(image)) // warps
    copies = 2 * walked * image.dim // 8 // tile.threads
    needs = {"HMMA": multiply, "LDG.E.128" if image.sm == 75 else "LDGSTS": copies}
    if function.name == ALL:
        needs["RED"] = walked * image.dim // tile.threads // (4 if image.sm >= 90 else 1)
    weights = owned * walked // tile.threads  # of a lane
    if not keys:
        ways = [{**needs, "MUFU.EX2": weights}]
    else:
        # Of a pair one warp weighs twice as many scores, the other fetches them, four at a time.
        ways = [{**needs, "MUFU.EX2": 2 * weights}, {**needs, "LDS.U.128" if image.sm == 75 else "LDS.128": 2 * weights // 4}]
    return Iteration([once(function, found.begin, way) for way in ways], tile, owned, walked)


def once(function: Function, begin: int, needs: dict[str, int]) -> list[Instruction]:
    """The shortest way around a loop on which all of this happens, no product twice."""
    way = shortest(function, begin, begin, needs)
    got = sum(i.opcode == "HMMA" for i in way)
    if got != needs["HMMA"]:
        raise ValueError(f"{function.name}: got {got} HMMA around its loop with {needs}, expected {needs['HMMA']}")
    return way


def launch_seconds(iteration: model.Iteration, gpu: Gpu, entry: str, call: Call) -> float:
    """The time of a launch in which blocks own tiles; one of keys walks through the queries of all heads of its group."""
    heads, group = (call.heads, 1) if entry == QUERIES else (call.heads_kv, call.heads // call.heads_kv)
    tiles = model.iterations(call.rows, call.rows, iteration.rows, iteration.keys, call.causal)
    return model.seconds(iteration, gpu, [(n * group, masked * group) for n, masked in tiles], call.batch * heads, call.dim,
                         call.causal, MOVED[entry] / 2)  # fmt: skip


def longer_in_order(owned: int, walked: int, gpu: Gpu, blocks: int, call: Call, compiler: str) -> float:
    """Times as long a launch takes whose blocks add to dq in a fixed order; blocks: of an SM."""
    tiles, queries, group = math.ceil(call.rows / owned), math.ceil(call.rows / walked), call.heads // call.heads_kv
    steps = [group * (queries - (tile * owned // walked if call.causal else 0)) for tile in range(tiles)]
    shape = (call.batch, call.heads, call.heads_kv, call.rows, call.dim, call.causal)
    together = dq_order.group_of(gpu, gpu.sms * blocks, owned, shape, compiler)
    return dq_order.longer(steps, call.batch * call.heads_kv, gpu.sms * blocks, together)


def other_seconds(gpu: Gpu, call: Call, in_memory: bool) -> float:
    """Time of the kernels without the loops: results and their gradients are read; in_memory: dq is cleared in f32, read and
    written."""
    moved = 2 * 2 * call.elements + 8 * call.elements / call.dim + (10 * call.elements if in_memory else 0)
    return moved / (gpu.dram * 1e9)

"""Instructions of the two kernels of a decode, in machine code: until the first keys are asked for, until they are waited for,
in each iteration over a block of keys, and from the last one on; before and after the wait of fa_combine."""

from __future__ import annotations

from dataclasses import dataclass

from . import schedule
from .images import Tile
from .nest import L2_LATENCY
from .rates import RATES, SUB_CORES
from .sass import Function, Instruction
from .way import shortest

PARAMETERS = {80: 0x160, 86: 0x160, 89: 0x160, 90: 0x210}  # where they begin in bank 0 of the constants
DEPTH = 8  # splits that a thread of fa_combine adds up at a time


@dataclass(frozen=True)
class Part:
    instructions: int
    cycles: float  # of a warp that has its sub-core to itself

    @staticmethod
    def of(way: list[Instruction], sm: int) -> "Part":
        return Part(len(way), schedule.cycles_of_way(way, RATES[sm], L2_LATENCY))


@dataclass(frozen=True)
class Decode:
    keys: int  # of a block of keys
    asks: Part  # until a block's first keys are asked for
    readies: Part  # from then on, until it waits for them
    first: Part  # iteration, in which the references of sums move
    iterations: dict[int, float]  # cycles of a further one, by blocks an SM
    iteration: Part
    ends: Part  # from the last iteration to the results of eight rows


@dataclass(frozen=True)
class Combine:
    before: Part  # until it waits for the splits
    few: Part  # from then on, of up to 32 splits
    many: Part  # of up to 256
    round: Part  # of each further 256, or part of them


def places(function: Function, *names: str) -> list[int]:
    return [n for n, i in enumerate(function.instructions) if (i.opcode + i.modifiers).startswith(names)]


def decode(function: Function, sm: int, dim: int, tile: Tile, rows_q: int) -> Decode:
    """Phases of a simple call with 16-bit elements: rows of whole chunks, evenly apart; half of the tile's rows exist. rows_q: where
    the parameters have the queries of a sequence, which a block without work does not read."""
    warps = tile.threads // 32
    chunks = tile.keys * dim // 8 // tile.threads  # copies of a thread for a tile of keys
    products = tile.rows // 16 * (tile.keys // warps // 8 * (dim // 16) + tile.keys // warps // 16 * (dim // 8))
    groups, waits = places(function, "LDGDEPBAR"), places(function, "DEPBAR")
    queries = tile.rows * dim // 8 // tile.threads
    read = f"c[0x0][{PARAMETERS[sm] + rows_q:#x}]"
    begun = shortest(function, 0, groups[0], {"LDGSTS": chunks + queries, read: 1})
    asked = [n for n, i in enumerate(begun) if i.opcode == "LDGSTS"][chunks - 1] + 1
    rest = begun[asked:]
    for at, to in zip(groups, groups[1 : tile.stages - 1], strict=False):
        rest += shortest(function, at, to, {"LDGSTS": chunks})
    rest += shortest(function, groups[tile.stages - 2], waits[0], {})
    needs = {"LDGSTS": 2 * chunks, "HMMA": products, "MUFU.EX2": tile.rows // 8 * (tile.keys // warps // 4)}
    iteration = shortest(function, waits[0], waits[0], needs)
    first = shortest(function, waits[0], waits[0], {**needs, "SHFL": tile.rows // 4})
    rows = tile.rows // 2
    stores = -(-rows // (2 * warps))  # two rows of a warp at a time
    end = places(function, "BAR.RED")[-1]
    quads = stores * (dim // 64)
    ends = shortest(function, waits[-1], end, {"STS.64": dim // 8 + 1, "STG.E.64": stores, "STG.E.128": quads, "VOTE": stores})
    iterations = {n: schedule.cycles_per_iteration(iteration, RATES[sm], n * warps // SUB_CORES, n) for n in (1, 2)}
    parts = (Part.of(way, sm) for way in (begun[:asked], rest, first))
    return Decode(tile.keys, *parts, iterations, Part.of(iteration, sm), Part.of(ends, sm))


def combine(function: Function, sm: int) -> Combine:
    """The phases of a warp that writes results of 16 bits."""
    load = places(function, "LDG.E.64")[0]
    wait = (places(function, "ACQBULK") or [load])[0]
    written = places(function, "STG.E.64")[0] + 1

    def of(rounds: int, warps: bool) -> Part:
        """warps: a row's threads are of several."""
        shuffles = rounds * (3 + DEPTH) + 2 * 5 * (1 + warps)  # five numbers over groups, and over warps
        needs = {"LDG.E.128": DEPTH * rounds, "LDG.E.64": 2 * rounds - 1, "REDUX": 1 + warps, "BAR": 2 * warps,
                 "SHFL": shuffles, "STG.E.64": 1}  # fmt: skip
        return Part.of(shortest(function, wait, written, needs), sm)

    few, many, two = of(1, False), of(1, True), of(2, True)
    round = Part(two.instructions - many.instructions, two.cycles - many.cycles)
    return Combine(Part.of(shortest(function, 0, wait, {}), sm), few, many, round)

"""An iteration of a kernel without tensor cores: a loop over tiles of keys in which other loops copy tiles and multiply them. How
often these run follows from the work that is to be done."""

from __future__ import annotations

from dataclasses import dataclass

from .images import Tile
from .loops import backward_branches
from .model import unit_cycles
from .rates import Rates
from .sass import Function, Instruction

PRODUCT = 32  # FFMA that mark a loop of a product
L2_LATENCY = 250  # cycles from asking the L2 cache to having it (Jia et al. 2018 and 2019, Luo et al. 2024; rounded)


@dataclass
class Nest:
    parts: list[tuple[list[Instruction], float]]  # instructions, and how often an iteration executes them
    waits: float  # how often a warp waits in an iteration for its latest load from global memory

    @property
    def issued(self) -> float:
        return sum(len(part) * times for part, times in self.parts)

    def count(self, opcode: str) -> float:
        return sum(times for part, times in self.parts for i in part if i.opcode == opcode)

    def unit_cycles(self, rates: Rates) -> dict[str, float]:
        total: dict[str, float] = {}
        for part, times in self.parts:
            for unit, cycles in unit_cycles(part, rates).items():
                total[unit] = total.get(unit, 0) + cycles * times
        return total


def elements_loaded(body: list[Instruction]) -> float:
    """The elements of 16 bits that are loaded by the loads from global memory of a loop."""
    sizes = {".128": 8, ".64": 4, ".U16": 1, ".U8": 0.5}
    loads = [i for i in body if i.opcode == "LDG"]
    return sum(next((n for name, n in sizes.items() if name in i.modifiers), 2) for i in loads)


def nest(function: Function, tile: Tile, dim: int) -> Nest | None:
    """None where there are no two loops of products within another."""

    def body(loop: tuple[int, int]) -> list[Instruction]:
        return function.instructions[loop[0] : loop[1] + 1]

    def multiplies(loop: tuple[int, int]) -> int:
        return sum(i.opcode == "FFMA" for i in body(loop))

    inner: list[tuple[int, int]] = []
    for loop in backward_branches(function):
        if any(loop[0] <= begin and end <= loop[1] for begin, end in inner):
            held = [other for other in inner if loop[0] <= other[0] and other[1] <= loop[1]]
            if sum(multiplies(other) >= PRODUCT for other in held) < 2:
                continue
            inside = {at for begin, end in held for at in range(begin, end + 1)}
            rest = [function.instructions[at] for at in range(loop[0], loop[1] + 1) if at not in inside]
            parts, waits = [(rest, 1.0)], 0.0
            for other in held:
                times = 1.0
                if multiplies(other) >= PRODUCT:
                    times = tile.rows * tile.keys * dim / tile.threads / multiplies(other)
                elif loaded := elements_loaded(body(other)):
                    times = tile.keys * dim / tile.threads / loaded
                    waits += times
                parts.append((body(other), times))
            return Nest(parts, waits)
        inner.append(loop)
    return None

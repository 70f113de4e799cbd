"""From machine code to the steps of a warpgroup (simulation.py): its products with the instructions between them, its waits for them, and
a place for each of its barriers, which a description of the kernel gives a name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from . import model, schedule, wgmma
from .rates import RATES, SUB_CORES
from .sass import Instruction
from .simulation import FRONT_END, Join, Multiply, Step, Work

HOPPER = RATES[90]
ROWS, DEPTH, LANES = 64, 16, 128  # of a product; of a warpgroup
ELEMENT = 2  # bytes
SHARED_A = re.compile(r"\w+, gdesc")  # both operands in shared memory, else A is in registers
BARRIERS = ("BAR", "SYNCS")


@dataclass(frozen=True)
class Place:
    """A barrier's instruction: "SYNCS.ARRIVE"."""

    kind: str


def work(instructions: Iterable[Instruction]) -> Work:
    """Products and waits do not count."""
    its = [i for i in instructions if not wgmma.is_product(i) and not wgmma.is_wait(i)]
    units = {name: cycles for name, cycles in model.unit_cycles(its, HOPPER).items() if name != "tensor"}
    units["shared"] /= SUB_CORES  # rates.py has cycles of a quarter of the bytes
    return Work(schedule.cycles_of_way(its, HOPPER) + FRONT_END * len(its), {name: cycles for name, cycles in units.items() if cycles})


def product(columns: int, rows_in_shared: int, count: int = 1, ends: bool = True) -> Multiply:
    """Of a depth of 16. rows_in_shared: of A, which are read with those of B."""
    moved = (rows_in_shared + columns) * DEPTH * ELEMENT
    return Multiply(count, columns * HOPPER.wgmma, moved / HOPPER.shared_bytes, ends=ends)


def translate(instructions: list[Instruction]) -> list[Step | Place]:
    steps: list[Step | Place] = []
    between: list[Instruction] = []

    def add(step: Step | Place) -> None:
        if between:
            steps.append(work(between))
            between.clear()
        steps.append(step)

    for i in instructions:
        if wgmma.is_product(i):
            add(product(wgmma.columns(i), ROWS if SHARED_A.match(i.operands) else 0, ends="gsb" in i.operands))
        elif wgmma.is_wait(i):
            add(Join(int(i.operands.split(",")[1], 0)))
        elif i.opcode in BARRIERS:
            add(Place(".".join((i.opcode + i.modifiers).split(".")[:2])))
        else:
            between.append(i)
    if between:
        steps.append(work(between))
    return steps


def bind(steps: list[Step | Place], names: list[list[Step]]) -> list[Step]:
    """Puts the steps of each barrier in its place."""
    places = [step for step in steps if isinstance(step, Place)]
    if len(places) != len(names):
        raise ValueError(f"got {len(places)} barriers ({', '.join(p.kind for p in places)}), expected {len(names)}")
    rest = iter(names)
    bound: list[Step] = []
    for step in steps:
        bound += next(rest) if isinstance(step, Place) else [step]
    return bound

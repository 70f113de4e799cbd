"""The steady loop of a kernel: the shortest loop over whole, unmasked tiles, and its instructions in every iteration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .sass import Function, Instruction

TENSOR = ("HMMA", "HGMMA", "QGMMA", "QMMA", "IMMA", "OMMA")
COPIES = ("LDGSTS", "UBLKCP", "UTMALDG")


@dataclass
class Loop:
    begin: int  # index of the first instruction
    end: int  # of the backward branch
    steady: list[Instruction]  # executed every iteration
    seldom: list[Instruction]  # skipped by a branch in most iterations: O rescaled when a row's maximum moves

    @property
    def counts(self) -> Counter[str]:
        return Counter(i.opcode for i in self.steady)

    @property
    def tensor(self) -> int:
        return sum(i.opcode in TENSOR for i in self.steady)

    @property
    def local(self) -> int:
        """Accesses of local memory, which are spills."""
        return sum(i.opcode in ("LDL", "STL") for i in self.steady + self.seldom)


def backward_branches(function: Function) -> list[tuple[int, int]]:
    """(target, branch) of each, shortest first."""
    found = set()
    for at, instruction in enumerate(function.instructions):
        target = function.labels.get(instruction.target or "")
        if target is not None and target <= at:
            found.add((target, at))
    return sorted(found, key=lambda loop: loop[1] - loop[0])


def split(function: Function, begin: int, end: int) -> Loop:
    """A conditional branch forward, within the loop, over instructions that hold neither tensor-core instructions nor
    copies nor barriers, marks the skipped code as seldom executed."""
    body = function.instructions[begin : end + 1]
    skipped: set[int] = set()
    for at, instruction in enumerate(body):
        target = function.labels.get(instruction.target or "", -1) - begin
        if not instruction.conditional or not at < target <= len(body):
            continue
        over = body[at + 1 : target]
        if not any(i.opcode in TENSOR + COPIES + ("BAR",) for i in over):
            skipped.update(range(at + 1, target))
    return Loop(
        begin,
        end,
        [i for n, i in enumerate(body) if n not in skipped],
        [i for n, i in enumerate(body) if n in skipped],
    )


def tensor_loops(function: Function) -> list[Loop]:
    """Innermost loops that hold tensor-core instructions."""
    loops: list[Loop] = []
    for begin, end in backward_branches(function):
        if any(begin <= other.begin and other.end <= end for other in loops):
            continue
        loop = split(function, begin, end)
        if loop.tensor:
            loops.append(loop)
    return loops


def masked_loop(function: Function, steady: Loop) -> Loop | None:
    """The shortest one with as many products that also selects each of its scores."""
    found = [
        loop
        for loop in tensor_loops(function)
        if loop.tensor == steady.tensor and 0 < steady.counts["MUFU"] <= loop.counts["FSEL"]
    ]
    return min(found, key=lambda loop: len(loop.steady), default=None)


def steady_loop(function: Function) -> Loop | None:
    """The tensor-core loop with fewest instructions for each tensor-core instruction: masks cost more."""
    return min(tensor_loops(function), key=lambda loop: len(loop.steady) / loop.tensor, default=None)

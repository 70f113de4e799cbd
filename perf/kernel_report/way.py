"""The way of a simple call through machine code. A kernel's code holds the features of many calls; the way of one of them is
found as the shortest way from one place to another on which everything happens that has to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from .sass import TARGET, Function, Instruction

ENDS, JUMPS = ("EXIT", "RET", "BPT"), ("BRA", "CALL")  # a CALL of a place in the function itself is a jump
State = tuple[int, tuple[int, ...]]  # an instruction, and the instructions before it


def follows(function: Function, at: int) -> Iterator[int]:
    """The instructions that may be executed after an instruction."""
    instruction = function.instructions[at]
    lanes_part = ".DIV" in instruction.modifiers
    found = TARGET.search(instruction.operands) if instruction.opcode in JUMPS and not lanes_part else None
    target = function.labels.get(found.group(1)) if found else None
    if target is not None:
        yield target
    jumps = target is not None or instruction.opcode in ENDS
    leaves = jumps and not instruction.conditional
    if not leaves and at + 1 < len(function.instructions):
        yield at + 1


def shortest(function: Function, begin: int, end: int, needs: dict[str, int]) -> list[Instruction]:
    """From instruction `begin` to just before `end`, with as many instructions of each kind as `needs` says, by the
    beginnings of their names ("STG.E.128") or by an operand ("c[0x0][0x3d4]"). Loops are passed as often as that takes."""
    kinds, most = list(needs), tuple(needs.values())

    def kind_of(i: Instruction) -> int:
        name = i.opcode + i.modifiers
        return next((n for n, kind in enumerate(kinds) if name.startswith(kind) or (kind[0] == "c" and kind in i.operands)), -1)

    of = [kind_of(i) for i in function.instructions]
    came: dict[State, State | None] = {(begin, (0,) * len(kinds)): None}
    queue = deque(came)
    while queue:
        state = queue.popleft()
        at, done = state
        if at == end and done == most:
            way = []
            while (before := came[state]) is not None:
                way.append(function.instructions[before[0]])
                state = before
            return way[::-1]
        if of[at] >= 0:
            done = tuple(min(n + (i == of[at]), most[i]) for i, n in enumerate(done))
        for following in follows(function, at):
            if (following, done) not in came:
                came[following, done] = state
                queue.append((following, done))
    raise ValueError(f"{function.name}: no way from instruction {begin} to {end} has {needs}")

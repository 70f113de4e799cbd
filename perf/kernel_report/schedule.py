"""How far the warps of a sub-core overlap: the steady loop issued cycle by cycle, in order, with the stalls and
scoreboards that the assembler wrote, the units' occupancy, and the blocks' barriers. Products of warpgroups (wgmma) run on
by themselves until a warp waits for them; where warpgroups let each other pass alternately (BAR.ARV), they do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .rates import Rates, cycles, unit
from .sass import Instruction

# Cycles from a unit's taking an instruction to its scoreboard's release (Jia et al. 2018, Luo et al. 2024; rounded).
LATENCY = {"MUFU": 18, "shared": 26, "issue": 12, "tensor": 18, "FP32": 6, "ALU": 6}
QUEUE = 32  # cycles of work that a unit takes in advance: a few instructions wait in front of MUFU and shared memory
BEHIND_A_QUEUE = ("MUFU", "shared")
ASYNCHRONOUS = ("HGMMA", "QGMMA")


@dataclass
class Warp:
    block: int
    at: int = 0
    iterations: int = 0
    ready: float = 0
    boards: list[float] = field(default_factory=lambda: [0.0] * 6)
    waiting: bool = False  # at a barrier of its block
    products: list[float] = field(default_factory=list)  # ends of its groups of asynchronous products
    passed: int = 0  # barriers at which it was let pass by the warpgroup before it
    let_pass: list[float] = field(default_factory=list)  # when it let the next warpgroup pass


def cycles_per_iteration(
    loop: list[Instruction], rates: Rates, warps: int, blocks: int, iterations: int = 6, mma_factor: float = 1
) -> float:
    """Cycles that a sub-core takes for an iteration of all its `warps`, which belong to `blocks` blocks. The first iterations, in
    which warps move apart, do not count."""
    costs = [(unit(i.opcode), cycles(rates, i.opcode, i.modifiers, mma_factor)) for i in loop]
    crew = [Warp(block=n * blocks // warps) for n in range(warps)]
    free: dict[str, float] = {}
    boards = [[b for b in range(6) if i.control.waits >> b & 1] for i in loop]
    alternates = any(i.opcode == "BAR" and ".ARV" in i.modifiers for i in loop)
    now, last, begun, warm_up = 0.0, crew[0], 0.0, iterations // 2

    def earliest(n: int) -> float:
        """When a warp's next instruction can issue, as far as is known now."""
        warp, what = crew[n], loop[crew[n].at]
        if warp.waiting:
            return math.inf
        kind = costs[warp.at][0]
        when = max([warp.ready] + [warp.boards[b] for b in boards[warp.at]])
        if what.opcode not in ASYNCHRONOUS:
            when = max(when, free.get(kind, 0) - (QUEUE if kind in BEHIND_A_QUEUE else 0))
        if what.opcode == "WARPGROUP" and ".DEPBAR" in what.modifiers:
            left = int(what.operands.split(",")[1], 0)
            if len(warp.products) > left:
                when = max(when, warp.products[-1 - left] + LATENCY["tensor"])
        if alternates and what.opcode == "BAR" and ".SYNC" in what.modifiers:
            before, needed = crew[n - 1], warp.passed + (n > 0)  # the first begins
            if len(before.let_pass) < needed:
                return math.inf
            if needed:
                when = max(when, before.let_pass[needed - 1] + LATENCY["issue"])
        return when

    while True:
        # The same warp as long as it can, else the oldest that can.
        when, _, n = min((max(earliest(n), now), w is not last, n) for n, w in enumerate(crew))
        warp, now = crew[n], when
        (kind, cost), what = costs[warp.at], loop[warp.at]
        begin = max(free.get(kind, 0), now)
        if kind != "issue":
            free[kind] = begin + cost
        if what.opcode in ASYNCHRONOUS and "gsb" in what.operands:
            warp.products.append(begin + cost)
        for board in {what.control.writes, what.control.reads} - {7}:
            done = begin + (LATENCY[kind] if board == what.control.writes else cost)
            warp.boards[board] = max(warp.boards[board], done)
        warp.ready = now + max(what.control.stall, 1)
        if what.opcode == "BAR" and alternates:
            if ".ARV" in what.modifiers:
                warp.let_pass.append(now)
            else:
                warp.passed += 1
        elif what.opcode == "BAR":
            warp.waiting = True
            mates = [w for w in crew if w.block == warp.block]
            if all(w.waiting for w in mates):
                for mate in mates:
                    mate.waiting, mate.ready = False, now + LATENCY["issue"]
        warp.at += 1
        if warp.at == len(loop):
            warp.at, warp.iterations = 0, warp.iterations + 1
            if min(w.iterations for w in crew) >= iterations:
                return (now - begun) / (iterations - warm_up)
            if begun == 0 and min(w.iterations for w in crew) >= warm_up:
                begun = now
        last, now = warp, now + 1


def cycles_of_way(way: list[Instruction], rates: Rates, loads: float = 0) -> float:
    """For which a warp that has its sub-core to itself works on these instructions, once; loads: cycles from asking global
    memory to having it. Instructions are there when they are needed, and other warps arrive at barriers at once."""
    free: dict[str, float] = {}
    boards = [0.0] * 6
    now = 0.0
    for what in way:
        kind = unit(what.opcode)
        when = max([now] + [boards[b] for b in range(6) if what.control.waits >> b & 1])
        begin = max(when, free.get(kind, 0))
        now = max(when, begin - (QUEUE if kind in BEHIND_A_QUEUE else 0))
        if kind != "issue":
            free[kind] = begin + cycles(rates, what.opcode, what.modifiers)
        latency = loads if what.opcode == "LDG" else LATENCY[kind]
        for board in {what.control.writes, what.control.reads} - {7}:
            done = begin + (latency if board == what.control.writes else cycles(rates, what.opcode, what.modifiers))
            boards[board] = max(boards[board], done)
        now += max(what.control.stall, 1) + (LATENCY["issue"] if what.opcode == "BAR" else 0)
    return now

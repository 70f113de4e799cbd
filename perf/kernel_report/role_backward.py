"""Backward kernels for warpgroups (Hopper) as descriptions for simulation.py: ours, and FlashAttention-3's by its public source
(hopper/mainloop_bwd_sm90_tma_gmma_ws.hpp). A block owns 128 keys, 64 a warpgroup, and walks through tiles of queries; a warp adds dq."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .nest import L2_LATENCY
from .role_calls import KEYS, Block, hop
from .role_code import DEPTH, ELEMENT, HOPPER, Place, bind, product
from .schedule import LATENCY
from .simulation import Arrive, Barrier, Copy, Join, Multiply, Result, Role, Simulation, Step, Wait, Work

CONSUMERS = 2
SYNC: list[Step] = [Arrive("dS there"), Wait("dS there")]  # of both warpgroups
# The barriers of a step in the order of machine code. Where a step has 64 queries its dS is stored once both warpgroups have released the step
# before, and dq of the step before is multiplied last: a warpgroup waits for dS that the other one had a step ago.
HAND_OVER: list[list[Step]] = [[Wait("dq free")], [Arrive("dq there")]]
OURS = {64: [[Wait("Q there")], SYNC, *HAND_OVER, [Wait("dO there")], [Arrive("free")]],
        128: [[Wait("Q there")], [Wait("dO there")], [Wait("dS free")], [Arrive("dS there")], [Wait("dS there")],
              [Arrive("free"), Arrive("dS free")], *HAND_OVER]}  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """last: the dq of the last step, where a step adds that of the one before. late: dq is multiplied at the end of a step."""

    name: str
    dim: int
    queries: int  # of a step
    step: list[Step]  # of a warpgroup
    last: list[Step]
    stages: int = 2
    late: bool = False
    apart: float = 0  # cycles by which warpgroups begin apart
    loops_over_group: bool = False  # a block walks through the queries of all heads that share its keys

    @property
    def ideal(self) -> float:
        """Cycles of tensor cores for a step."""
        return CONSUMERS * sum(step.count * step.cycles for step in self.step if isinstance(step, Multiply))

    @cached_property
    def blocks(self) -> dict[bool, Block]:
        """By whether they add in a fixed order."""
        apart = hop(self.queries, self.dim, HOPPER.l2_bytes)
        return {fixed: Block(self.queries, self.dim, *fit(self, fixed), apart if fixed else None, self.loops_over_group)
                for fixed in (False, True)}  # fmt: skip

    def run(self) -> Result:
        return simulate(self, 64)


def ours(dim: int, queries: int, loop: list[Step | Place]) -> Kernel:
    """dq of a step is multiplied in the next one, and behind the last."""
    late = SYNC not in OURS[dim]
    step = bind(loop, OURS[dim])
    handed = step[step.index(HAND_OVER[0][0]) : step.index(HAND_OVER[1][0]) + 1]
    dq = product(64, 64, KEYS // DEPTH)
    return Kernel(f"backward_wgmma hd{dim}", dim, queries, step, [*SYNC[late:], dq, Join(), *handed], late=late, loops_over_group=True)


def fa3(name: str, dim: int, queries: int, loop: list[Step | Place]) -> Kernel:
    """In its order: S and dP, then dV, dQ and dK of the same step. Its own code was not compiled; the instructions between products are ours,
    in the loop given: scores to weights, weights to derivatives, dq to shared memory."""
    its = bind(loop, OURS[dim])
    joins = [n for n, step in enumerate(its) if isinstance(step, Join)]
    free, there = (its.index(step[0]) for step in HAND_OVER)
    factor = queries * dim / (128 * 64)  # of the queries of a step of ours

    def works(begin: int, end: int) -> list[Step]:
        return [step.part(factor) for step in its[begin:end] if isinstance(step, Work)]

    def until_product(begin: int) -> list[Step]:
        return works(begin, next(n for n in range(begin, len(its)) if isinstance(its[n], Multiply)))

    if dim == 128:
        weigh, differentiate = until_product(joins[0]), until_product(joins[1])
    else:  # ours weighs while it multiplies
        weigh, differentiate = works(there, joins[1]), until_product(joins[1])
    lead = [step for step in its[: its.index(OURS[dim][0][0])] if isinstance(step, Work)]
    scores, sums = product(queries, 64, dim // DEPTH), product(dim, 0, queries // DEPTH)
    # Of dQ a warpgroup has 64 queries of 128, else half of the columns: those are the rows of the product where 64 does not divide the queries.
    dq = product(dim if queries == 128 else queries if queries % 64 else dim // 2, 64, KEYS // DEPTH)
    step: list[Step] = [*lead, Wait("Q there"), scores, Wait("dO there"), scores, Join(1), *weigh, Join(), *differentiate, sums, *SYNC, dq,
                        Join(1), sums, Join(1), Wait("dq free"), *works(free, there), Arrive("dq there"), Join(), Arrive("free")]  # fmt: skip
    return Kernel(name, dim, queries, step, [])


def simulate(of: Kernel, steps: int, fixed_order: bool = False, apart: float | None = None) -> Result:
    """A block. apart: cycles by which its warpgroups begin apart. fixed_order: it adds dq behind another one that is a step
    ahead, asks the L2 cache whether it may, and lets the next one add when its sums are there."""
    barriers = {
        "KV there": Barrier(),
        "Q there": Barrier(),
        "dO there": Barrier(),
        "free": Barrier(CONSUMERS, of.stages),
        "dS there": Barrier(CONSUMERS, 1) if of.late else Barrier(CONSUMERS, 0, LATENCY["issue"]),
        "dS free": Barrier(CONSUMERS, 1),
        "dq there": Barrier(CONSUMERS),
        "dq free": Barrier(1, 1),
    }
    tile = of.queries * of.dim * ELEMENT
    loads: list[Step] = [Copy(2 * KEYS * of.dim * ELEMENT, "KV there")]
    loads += [Wait("free"), Copy(tile + 8 * of.queries, "Q there"), Copy(tile, "dO there")] * steps
    sums = 2 * tile  # of f32
    ask: list[Step] = [Copy(0, latency=L2_LATENCY, waits=True)]
    added: list[Step] = [Wait("dq there"), Copy(sums, latency=0, waits=True), Arrive("dq free")]
    if fixed_order:
        added = [Wait("dq there"), *ask, Copy(sums, latency=0, waits=True), Arrive("dq free"), *ask, *ask]
    results = of.dim * 64 // 128 * 2  # numbers of a lane
    store = Work(2 * results + LATENCY["shared"], {"issue": 2 * results, "shared": results / 2})
    # The thread that asks for keys and values waits for its queue; the first step of a warpgroup has a dq of zeros, which nobody adds.
    first = [step for step in of.step if step not in (HAND_OVER[0][0], HAND_OVER[1][0])]
    consumer = [Wait("KV there"), *(first if of.last else of.step), *of.step * (steps - 1), *of.last, store]
    roles = [Role("loads", loads), Role("dq", added * steps)]
    begin = of.apart if apart is None else apart
    roles += [Role(f"warpgroup {n}", [*consumer[:1], Work(n * begin), *consumer[1:]]) for n in range(CONSUMERS)]
    return Simulation(roles, barriers, HOPPER.l2_bytes).run()


def fit(of: Kernel, fixed_order: bool = False, few: int = 16, many: int = 64) -> tuple[float, float]:
    """Cycles of a block outside its steps, and of a step."""
    short, long = (simulate(of, n, fixed_order).cycles for n in (few, many))
    step = (long - short) / (many - few)
    return short - few * step, step

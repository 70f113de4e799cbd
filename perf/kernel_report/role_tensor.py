"""Kernels on tensor memory (Blackwell) as descriptions for simulation.py: ours by their machine code, FlashAttention-4 by its counts (fa4.json)
and its public source (flash_attn/cute/flash_fwd_sm100.py, flash_bwd_sm100.py). Front ends cost a warp no cycles of the dispatcher here, as
sums of products are not in registers; the rest of simulation.py's constants are Hopper's, for want of others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, reduce

from . import blackwell, roles, schedule
from .nest import L2_LATENCY
from .role_calls import KEYS, Block, Tile, hop
from .role_code import DEPTH, ELEMENT
from .roles import PRODUCT, ROWS, TENSOR_MEMORY
from .sass import Instruction
from .schedule import LATENCY
from .simulation import Arrive, Barrier, Copy, Mark, Multiply, Result, Role, Simulation, Step, Wait, Work

RATES = blackwell.RATES[100]
FRONT_END = 0.13 + 0.11  # instruction cache, branches [P of simulation.py]
STORE = "STTM"  # of weights to tensor memory, two a register
PAIR_LATENCY = 181  # from one multiprocessor's shared memory to another's [H of simulation.py, NewFeatures/DSM/Latency]
TILES = 3  # of queries, that are simulated


def work(instructions: Iterable[Instruction]) -> Work:
    """Accesses of tensor memory take a cycle a register, for which the warp waits."""
    its = [i for i in instructions if i.opcode != PRODUCT]
    units = {unit: cycles for unit, cycles in roles.unit_cycles(its, RATES).items() if cycles and unit != "tensor"}
    if "shared" in units:
        units["shared"] /= 4  # rates.py has cycles of a quarter of the bytes
    known = [i for i in its if i.opcode not in TENSOR_MEMORY]
    return Work(schedule.cycles_of_way(known, RATES) + units.get("TMEM", 0) + FRONT_END * len(its), units)


def parts(instructions: list[Instruction], at: tuple[str, ...] = ("SYNCS",)) -> list[Work]:
    """The work between barriers, at the last instruction of each part."""
    found: list[list[Instruction]] = [[]]
    for i in instructions:
        found[-1].append(i)
        if i.opcode in at:
            found.append([])
    return [work(one) for one in found]


def product(columns: int, depth: int, shared_rows: int, *signals: str, ctas: int = 1, issue: float = 0) -> Multiply:
    """Of 128 rows. shared_rows: of A in shared memory, next to B's columns, of which a CTA of a pair has half."""
    cycles = 2 * ROWS * columns * DEPTH / blackwell.PRODUCTS
    moved = (shared_rows + columns / ctas) * DEPTH * ELEMENT
    return Multiply(depth // DEPTH, cycles, moved / RATES.shared_bytes, held=False, issue=issue, signals=signals)


@dataclass(frozen=True)
class Forward:
    """Two tiles of 128 queries."""

    name: str
    dim: int
    dim_v: int
    keys: int
    stages: int
    scores: list[Work]  # of a softmax warp: to scores, to the scale of its row, to early weights, to the rest
    correction: Work  # of a tile of queries
    issue: float  # cycles of the thread that multiplies, from one product to the next
    ctas: int = 1
    early: int = 0  # keys behind whose weights the second product begins, if there is a rest
    results: Work = field(default_factory=lambda: Work(0))  # of the correction, from a complete sum to out

    @property
    def ideal(self) -> float:
        return 2 * 2 * ROWS * self.keys * (self.dim + self.dim_v) / blackwell.PRODUCTS

    @cached_property
    def tile(self) -> Tile:
        return Tile(2 * ROWS, self.keys, self.dim + self.dim_v, *fit_forward(self))

    def run(self) -> Result:
        return simulate_forward(self, 32)


def simulate_forward(of: Forward, iterations: int) -> Result:
    both = range(2)
    barriers = {"Q there": Barrier(), "Q free": Barrier(1, 1)}
    for what in "KV":
        barriers |= {f"{what} there": Barrier(), f"{what} free": Barrier(1, of.stages)}
    for t in both:
        barriers |= {f"S{t}": Barrier(), f"P{t}": Barrier(2), f"rest of P{t}": Barrier(), f"O{t}": Barrier(),
                     f"scale {t}": Barrier(), f"scale {t} read": Barrier(1, 1), f"sums {t}": Barrier()}  # fmt: skip

    def scores(t: int, *also: str) -> list[Step]:
        return [product(of.keys, of.dim, ROWS, f"S{t}", *also, ctas=of.ctas, issue=of.issue)]

    def values(t: int, *also: str) -> list[Step]:
        first = of.early
        if len(of.scores) == 3:
            return [Wait(f"P{t}"), product(of.dim_v, of.keys, 0, *also, ctas=of.ctas, issue=of.issue)]
        return [Wait(f"P{t}"), product(of.dim_v, first, 0, ctas=of.ctas, issue=of.issue), Wait(f"rest of P{t}"),
                product(of.dim_v, of.keys - first, 0, *also, ctas=of.ctas, issue=of.issue)]  # fmt: skip

    begin: list[Step] = [Wait("Q there"), Wait("K there"), *scores(0), *scores(1, "K free")]
    step: list[Step] = [Wait("V there"), *values(0), Wait("K there"), *scores(0), *values(1, "V free"), *scores(1, "K free")]
    end: list[Step] = [Wait("V there"), *values(0, "O0"), *values(1, "O1", "V free", "Q free")]
    each = of.keys * ELEMENT / of.ctas
    keys: list[Step] = [Wait("K free"), Copy(each * of.dim, "K there")]
    loaded: list[Step] = [Wait("V free"), Copy(each * of.dim_v, "V there")]
    queries: list[Step] = [Wait("Q free"), Copy(2 * ROWS * of.dim * ELEMENT, "Q there")]

    def softmax(t: int) -> list[Step]:
        first, second, early, *late = of.scores
        rest: list[Step] = [*late, Arrive(f"rest of P{t}")] if late else []
        scale: list[Step] = [Wait(f"scale {t} read"), second, Arrive(f"scale {t}")]
        each: list[Step] = [Wait(f"S{t}"), first, *scale, early, Arrive(f"P{t}"), *rest]
        return (each * iterations + [Arrive(f"sums {t}")]) * TILES

    corrects = [step for t in both for step in (Wait(f"scale {t}"), of.correction, Arrive(f"scale {t} read"), Arrive(f"P{t}"))]
    done: list[Step] = [step for t in both for step in (Wait(f"sums {t}"), Wait(f"O{t}"), of.results)]
    its = [
        Role("loads", (queries + keys + (keys + loaded) * (iterations - 1) + loaded) * TILES),
        Role("products", (begin + step * (iterations - 1) + end) * TILES),
        *(Role(f"softmax {t}", softmax(t)) for t in both),
        Role("correction", (corrects * iterations + [*done, Mark("tile")]) * TILES),
    ]
    return Simulation(its, barriers, RATES.l2_bytes).run()


def fit_forward(of: Forward, few: int = 8, many: int = 32) -> tuple[float, float]:
    """Cycles of a work tile outside its iterations, and of an iteration."""

    def each(iterations: int) -> float:
        marks = simulate_forward(of, iterations).marks["tile"]
        return (marks[-1] - marks[0]) / (TILES - 1)

    short, long = each(few), each(many)
    iteration = (long - short) / (many - few)
    return short - few * iteration, iteration


def fa4(of: blackwell.Counts) -> Forward:
    """A warp's loads and maxima follow upon each other, then exponentials, of whose weights three quarters are there early."""
    units = {unit: cycles / 2 for unit, cycles in of.units.items()}  # of a softmax warp; the other roles have hardly any
    units["MUFU"] *= blackwell.RATES[of.sm].mufu / RATES.mufu
    ld, st = of.keys, of.keys / 2
    maxima = units["ALU"] / 2
    to_scores = Work(ld + maxima + LATENCY["shared"], {"TMEM": ld, "ALU": maxima, "issue": maxima / 2})
    issued = of.issued["softmax"] - maxima / 2
    weights = Work(max(units["MUFU"], issued) + st + LATENCY["MUFU"] + FRONT_END * of.issued["softmax"],
                   {"MUFU": units["MUFU"], "FP32": units["FP32"], "ALU": maxima, "issue": issued, "TMEM": st})  # fmt: skip
    count = 2 * (of.dim + of.keys) / DEPTH
    its = [to_scores, Work(LATENCY["shared"]), weights.part(0.75), weights.part(0.25)]
    return Forward(f"FA4 {of.name}", of.dim, of.dim_v, of.keys, 2, its, Work(of.issued["correction"] / 2),
                   of.issued["products"] / count, of.ctas, of.keys * 3 // 4, results(of.dim_v))  # fmt: skip


def results(columns: int) -> Work:
    """A row of sums a thread: from tensor memory, scaled, converted, stored."""
    return Work(3 * columns + LATENCY["shared"], {"TMEM": columns, "issue": 2 * columns, "shared": columns / 2})


def ours(name: str, dim: int, keys: int, stages: int, found: list[roles.Role]) -> Forward:
    """Of the barriers of an iteration of softmax, the last is not on the shortest way."""
    by_name = {role.name: role.iteration for role in found}
    softmax = by_name["softmax"]
    _, *scores = parts(softmax)
    last = max(n for n, i in enumerate(softmax) if i.opcode == "SYNCS")
    early = sum(2 * roles.width(i) for i in softmax[:last] if i.opcode == STORE)
    products = by_name["products"]
    count = sum(i.opcode == PRODUCT for i in products)
    correction = work(by_name["correction"])
    return Forward(name, dim, dim, keys, stages, scores, correction.part(0.5), len(products) / count, early=early, results=results(dim))


# Products of a step; ': the next step's. A CTA of FlashAttention-4 has dP first.
DP_FIRST, DV_FIRST = ("dP", "dV", "S'", "dK", "dQ"), ("dV", "dP", "S'", "dK", "dQ")
FA4_PAIR = ("S'", "dK", "dP'", "dQ", "dV'")


@dataclass(frozen=True)
class Backward:
    """A block of 128 keys, in steps of 128 queries. Two warpgroups weigh half of the queries each, one adds dQ, or brings it to shared memory,
    from where one thread adds it (adder). late: dP has the place of dQ and waits until that is read, else dQ itself waits."""

    name: str
    dim: int
    scores: list[Work]  # of a warp: until it needs S, to P, until it needs dP, to dS
    dq: list[Work]  # of a warp: until it needs dQ, to registers, to shared memory
    order: tuple[str, ...] = DP_FIRST
    fixed: tuple[str, ...] = DV_FIRST  # the same where dQ is added in a fixed order
    late: bool = True
    ctas: int = 1
    loops_over_group: bool = False
    adder: bool = False

    @property
    def ideal(self) -> float:
        return 5 * 2 * KEYS * KEYS * self.dim / blackwell.PRODUCTS

    @cached_property
    def blocks(self) -> dict[bool, Block]:
        """By whether they add in a fixed order."""
        apart = hop_of(self) if self.adder else hop(KEYS, self.dim, RATES.l2_bytes)
        return {fixed: Block(KEYS, self.dim, *fit_backward(self, fixed), apart if fixed else None, self.loops_over_group)
                for fixed in (False, True)}  # fmt: skip

    def run(self) -> Result:
        return simulate_backward(self, 64)


def products_of(of: Backward, steps: int, order: tuple[str, ...]) -> list[Step]:
    read: list[Step] = [Wait("dQ read")]
    waits: dict[str, list[Step]] = {"S": [Wait("Q there")], "dP": read if of.late else [], "dV": [Wait("P")], "dK": [Wait("dS")],
                                    "dQ": ([] if of.late else read) + ([Wait("dS of both")] if of.ctas > 1 else [])}  # fmt: skip
    signals = {"S": ["S"], "dP": ["dP"], "dV": [], "dK": ["Q free"], "dQ": ["dQ"]}
    names = [what.rstrip("'") for what in order]
    first, last = sorted(("dP", "dV"), key=names.index)
    waits[first] = [Wait("dO there"), *waits[first]]
    signals[last].append("dO free")
    rows_in_shared = {"S": KEYS, "dP": KEYS, "dV": 0, "dK": 0, "dQ": KEYS}

    def steps_of(what: str, *also: str) -> list[Step]:
        columns, depth = (KEYS, of.dim) if what in ("S", "dP") else (of.dim, KEYS)
        return [*waits[what], product(columns, depth, rows_in_shared[what], *signals[what], *also, ctas=of.ctas)]

    ahead = [what.rstrip("'") for what in order if what.endswith("'")]
    left = [what for what in order if not what.endswith("'")]
    begin = [step for what in ahead for step in steps_of(what)]
    each = [step for what in names for step in steps_of(what)]
    end = [step for what in left[:-1] for step in steps_of(what)] + steps_of(left[-1], "sums")
    return [Wait("KV there"), *begin, *each * (steps - 1), *end]


def simulate_backward(of: Backward, steps: int, fixed_order: bool = False) -> Result:
    """A block. fixed_order: as role_backward's. In a pair of CTAs, whose halves are alike, arrivals cross distributed shared memory, as does half
    of dS."""
    across = PAIR_LATENCY if of.ctas > 1 else LATENCY["shared"]
    barriers = {
        **{what: Barrier() for what in ("KV there", "Q there", "dO there", "sums")},
        **{what: Barrier(latency=across) for what in ("S", "dP", "dQ", "dS of both")},
        **{what: Barrier(2, latency=across) for what in ("P", "dS")},
        "Q free": Barrier(1, 2),
        "dO free": Barrier(1, 2 if of.dim < 128 else 1),
        "dQ read": Barrier(1, 1, across),
        "slots full": Barrier(),
        "slots empty": Barrier(1, 1),
    }
    tile = KEYS * of.dim * ELEMENT
    loads: list[Step] = [Copy(2 * tile, "KV there")]
    loads += [Wait("Q free"), Copy(tile, "Q there"), Wait("dO free"), Copy(tile, "dO there")] * steps
    added = 2 * tile / of.ctas  # sums in f32, of which a CTA of a pair has half
    ask: list[Step] = [Copy(0, latency=L2_LATENCY, waits=True)] if fixed_order else []
    idle, take, store = of.dq
    adds: list[Step] = [idle, Wait("dQ"), take, Arrive("dQ read")]
    adder: list[Step] = []
    if of.adder:
        count = 2 if of.dim > 64 else 1
        part = Copy(added / count, "", added / count / RATES.shared_bytes, 0, True)
        adds += [Wait("slots empty"), store.part(1 / count), Arrive("slots full")] * count
        adder += [*ask, Mark("asked"), *[Wait("slots full"), part, Arrive("slots empty")] * count, *ask * 2, Mark("passed")]
    else:
        adds += ask
        for last in (False, True):  # of two parts, the first of which is added while the second is stored
            adds += [store.part(0.5), Copy(added / 2, "", added / 2 / RATES.shared_bytes, 0, last)]
        adds += ask * 2
    relay: list[Step] = [Wait("dS"), Copy(0, "dS of both", KEYS * KEYS * ELEMENT / 2 / RATES.shared_bytes, 0)] if of.ctas > 1 else []
    early, to_p, late, to_ds = of.scores
    weighs = [early, Wait("S"), to_p, Arrive("P"), late, Wait("dP"), to_ds, Arrive("dS")]
    its = [
        Role("loads", loads),
        Role("products", products_of(of, steps, of.fixed if fixed_order else of.order)),
        *(Role(f"scores {n}", weighs * steps + [Wait("sums"), results(of.dim)]) for n in range(2)),
        Role("dq", adds * steps),
        *([Role("adds", adder * steps)] if adder else []),
        *([Role("relay", relay * steps)] if relay else []),
    ]
    return Simulation(its, barriers, RATES.l2_bytes).run()


def fit_backward(of: Backward, fixed_order: bool = False, few: int = 16, many: int = 64) -> tuple[float, float]:
    """Cycles of a block outside its steps, and of a step."""
    short, long = (simulate_backward(of, n, fixed_order).cycles for n in (few, many))
    step = (long - short) / (many - few)
    return short - few * step, step


def hop_of(of: Backward, steps: int = 64) -> float:
    """Cycles from an addition's turn to the next block's, which sees it a way from the L2 cache later."""
    marks = simulate_backward(of, steps, fixed_order=True).marks
    each = [passed - asked for asked, passed in zip(marks["asked"], marks["passed"], strict=True)]
    return sum(each) / steps + L2_LATENCY


def our_gradients(name: str, dim: int, found: list[roles.Role]) -> Backward:
    by_name = {role.name: role.iteration for role in found}
    stats, waits_s, to_p, arrives, to_ds = parts(by_name["scores"])
    idle, taken, *stored = parts(by_name["dq"])
    return Backward(name, dim, [joined(stats, waits_s), joined(to_p, arrives), Work(0), to_ds], [idle, taken, reduce(joined, stored)], fixed=DP_FIRST,
                    loops_over_group=True, adder=True)  # fmt: skip


def joined(one: Work, other: Work) -> Work:
    """One after the other."""
    units = {unit: one.units.get(unit, 0) + other.units.get(unit, 0) for unit in one.units | other.units}
    return Work(one.alone + other.alone, units)

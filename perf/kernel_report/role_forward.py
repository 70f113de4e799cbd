"""Forward kernels for warpgroups (Hopper) as descriptions for simulation.py: ours, and FlashAttention-3's by its paper and its public
source (hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp). Of both, an iteration of a warpgroup is that of its machine code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .peers import Loop, units_on
from .rates import SUB_CORES
from .role_calls import Tile
from .role_code import DEPTH, ELEMENT, HOPPER, LANES, ROWS, Place, bind, product
from .schedule import LATENCY
from .simulation import FRONT_END, Arrive, Barrier, Copy, Join, Mark, Multiply, Result, Role, Simulation, Step, Wait, Work

TILES = 3  # of queries, that are simulated: those before the last two fill the pipelines


@dataclass(frozen=True)
class Kernel:
    """dim: of values, too."""

    name: str
    dim: int
    keys: int
    loop: list[Step | Place]  # an iteration of a warpgroup
    consumers: int = 2  # warpgroups of 64 rows
    stages: int = 2
    pingpong: bool = True  # they take turns at the start of their products
    keys_first: bool = True  # of the next work tile, ahead of its queries
    multicast: int = 1  # blocks that a tile of keys or values is brought to at once

    @property
    def rows(self) -> int:
        return ROWS * self.consumers

    @property
    def ideal(self) -> float:
        """Cycles of tensor cores for an iteration."""
        return self.consumers * sum(step.count * step.cycles for step in self.loop if isinstance(step, Multiply))

    @cached_property
    def tile(self) -> Tile:
        return Tile(self.rows, self.keys, 2 * self.dim, *fit(self))

    def run(self) -> Result:
        return simulate(self, 32)

    @property
    def weigh(self) -> list[Step]:
        """From scores to weights: the work between an iteration's two waits for products."""
        first, second = (n for n, step in enumerate(self.loop) if isinstance(step, Join))
        return [step for step in self.loop[first:second] if isinstance(step, Work)]


def names(of: Kernel, n: int) -> list[list[Step]]:
    """The barriers of warpgroup n in an iteration, in the order of machine code."""
    turn: list[list[Step]] = [[Wait(f"turn {n}")], [Arrive(f"turn {(n + 1) % of.consumers}")]] if of.pingpong else []
    return [[Wait("K there")], [Wait("V there")], *turn, [Arrive("K free")], [Arrive("V free")]]


def loads(of: Kernel, iterations: int) -> list[Step]:
    """In the order of use: the next tile's keys before this one's values."""
    each = of.keys * of.dim * ELEMENT / of.multicast

    def tile(what: str) -> list[Step]:
        return [Wait(f"{what} free"), Copy(each, f"{what} there")]

    queries: list[Step] = [Wait("Q free"), Copy(of.rows * of.dim * ELEMENT, "Q there")]
    begin = [*tile("K"), *queries] if of.keys_first else [*queries, *tile("K")]
    return (begin + (tile("K") + tile("V")) * (iterations - 1) + tile("V")) * TILES


def consumer(of: Kernel, n: int, iterations: int) -> list[Step]:
    scores = product(of.keys, ROWS, of.dim // DEPTH)
    values = product(of.dim, 0, of.keys // DEPTH)
    begin: list[Step] = [Wait("Q there"), Wait("K there"), scores, Join(), Arrive("K free"), *of.weigh]
    sums = of.dim * ROWS // LANES  # numbers of a lane: scaled, converted, stored
    store = Work(2 * sums + LATENCY["shared"], {"issue": 2 * sums, "shared": sums / 2})
    end: list[Step] = [Arrive("Q free"), Wait("V there"), values, Join(), Arrive("V free"), store, Mark("tile")]
    return (begin + bind(of.loop, names(of, n)) * (iterations - 1) + end) * TILES


def simulate(of: Kernel, iterations: int) -> Result:
    """Work tiles one after another, of a persistent block."""
    barriers = {
        "Q there": Barrier(),
        "Q free": Barrier(of.consumers, 1),
        **{f"{what} there": Barrier() for what in "KV"},
        **{f"{what} free": Barrier(of.consumers, of.stages) for what in "KV"},
        **{f"turn {n}": Barrier(1, int(n == 0), LATENCY["issue"]) for n in range(of.consumers)},
    }
    roles = [Role("loads", loads(of, iterations))]
    roles += [Role(f"warpgroup {n}", consumer(of, n, iterations)) for n in range(of.consumers)]
    return Simulation(roles, barriers, HOPPER.l2_bytes).run()


def fit(of: Kernel, few: int = 8, many: int = 32) -> tuple[float, float]:
    """Cycles of a work tile outside its iterations, and of an iteration."""

    def each(iterations: int) -> float:
        marks = sorted(simulate(of, iterations).marks["tile"])
        return (marks[-1] - marks[of.consumers - 1]) / (TILES - 1)

    short, long = each(few), each(many)
    iteration = (long - short) / (many - few)
    return short - few * iteration, iteration


def fa3(of: Loop, gpu: str) -> Kernel:
    """By the load of units (peers.json): maxima, exponentials and conversions follow upon one another, each at the pace of its slowest
    unit; maxima of two rows take two shuffles. Its warpgroups take turns up to 128 columns, and a cluster of two blocks shares keys under
    full masks from there on."""
    warps = of.warps * of.blocks / SUB_CORES
    units = {name: cycles / warps for name, cycles in units_on(of, gpu).items()}
    scores, sums = of.keys * ROWS // LANES, of.dim * ROWS // LANES
    maxima, packed = 2 * scores + 2 * LATENCY["shared"], scores + LATENCY["ALU"]
    products = [product(of.keys, ROWS, of.dim // DEPTH), product(of.dim, 0, of.keys // DEPTH)]
    issued = units["issue"] - sums - sum(one.count for one in products)
    weigh = Work(maxima + units["MUFU"] + LATENCY["MUFU"] + packed + FRONT_END * issued,
                 {"MUFU": units["MUFU"], "ALU": units["ALU"], "FP32": units["FP32"] - sums, "issue": issued})  # fmt: skip
    scale = Work(sums + LATENCY["FP32"] + FRONT_END * sums, {"FP32": sums, "issue": sums})
    turns = of.dim <= 128
    turn: list[Step | Place] = [Place("turn")] if turns else []
    loop = [Place("K"), Place("V"), *turn, *products, *turn, Join(1), Place("K"), weigh, Join(), Place("V"), scale]
    shared = of.name.endswith("full") and of.dim >= 128
    return Kernel(of.title, of.dim, of.keys, loop, of.warps // 4, pingpong=turns, multicast=2 if shared else 1)

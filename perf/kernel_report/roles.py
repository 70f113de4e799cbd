"""Kernels whose warps have roles, on Blackwell's tensor memory: the instructions of an iteration of each role, and their load of
an SM in an iteration of the block: two tiles of queries or one, one of keys each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from . import model, way
from .loops import backward_branches
from .rates import Rates
from .sass import Function, Instruction

TILES = 2  # of queries, of most blocks
ROWS = 128  # of a tile: lanes of tensor memory
DEPTH = 16  # of a product
PRODUCT, COMMIT, SCALE = "UTCHMMA", "UTCBAR", "STS"
PACKED = ("FFMA2", "FADD2", "FMUL2")  # two operations of f32, for as long as two
TENSOR_MEMORY = ("LDTM", "STTM")  # ".x32": registers of a lane


@dataclass(frozen=True)
class Role:
    """The instructions of a warp in an iteration of the block."""

    name: str
    warps: int  # of a sub-core, of the one that has most of them
    iteration: list[Instruction]

    @property
    def counts(self) -> Counter[str]:
        return Counter(i.opcode for i in self.iteration)


def body(function: Function, loop: tuple[int, int]) -> Counter[str]:
    return Counter(i.opcode for i in function.instructions[loop[0] : loop[1] + 1])


def products_of_tile(dim: int, dim_v: int, keys: int) -> int:
    """UTCHMMA of a tile of queries and one of keys; dim_v: of values."""
    return dim // DEPTH + keys // DEPTH * (dim_v > 0)


def around(function: Function, loop: tuple[int, int], needs: dict[str, int]) -> list[Instruction]:
    """The shortest way once around a loop, or as often as it takes to execute the needed instructions."""
    first = function.instructions[loop[0]]
    needs = dict(needs)
    kind = first.opcode + first.modifiers
    if any(kind.startswith(name) for name in needs):
        return way.shortest(function, loop[0], loop[0], needs)
    return [first, *way.shortest(function, loop[0] + 1, loop[0], needs)]


def features(keys: int) -> dict[str, dict[str, int]]:
    """The instructions of a softmax warp an iteration for a feature that is on (collective/deferred_score_mod.cuh): a softcap's reciprocals, one
    a score; a distance of ALiBi that becomes a number."""
    return {"softcap": {"MUFU.RCP": keys}, "ALiBi": {"I2F.S64": 1}}


def roles(function: Function, dim: int, dim_v: int, keys: int, both: bool, tiles: int = TILES, feature: str = "") -> list[Role]:
    """Roles of a kernel whose blocks have 16 warps, or 12 where they have one tile of queries. both: an iteration of the correction's loop
    is for both tiles, as in FlashAttention-4. In ours the first iteration of softmax says nothing to the correction, and keys and
    values are released by the last tile of queries alone: an iteration in between has both."""
    inner = [(loop, body(function, loop)) for loop in backward_branches(function)]  # shortest first

    def loop_of(what: str, found) -> tuple[int, int]:
        loop = next((loop for loop, counts in inner if found(counts)), None)
        if loop is None:
            raise ValueError(f"{function.name}: no loop of the role {what}")
        return loop

    tile = products_of_tile(dim, dim_v, keys)
    softmax = loop_of("softmax", lambda c: c["MUFU"] >= keys // 4 and c["STTM"] > 0)
    products = loop_of("products", lambda c: c[PRODUCT] >= tile)
    correction = loop_of("correction", lambda c: c["LDTM"] > 0 and c["STTM"] > 0 and c["SYNCS"] > 1 and c["MUFU"] == 0)
    load = loop_of("load", lambda c: c["UTMALDG"] > 1 and c["SYNCS"] > 1)
    once = around(function, correction, {"SYNCS": 1})
    # Scores and sums of each tile, keys, values; and queries, by a predicate that is false but in the last iteration.
    signals, released = ({}, {}) if both else ({SCALE: 1}, {COMMIT: 2 * tiles + 3})
    weighs = {"STTM": 1, **(features(keys)[feature] if feature else {"MUFU": 1})}
    return [
        Role("softmax", tiles, around(function, softmax, {**weighs, **signals})),
        Role("correction", 1, once if both else once * tiles),
        Role("products", 1, around(function, products, {PRODUCT: tiles * tile, **released})),
        Role("load", 0, around(function, load, {"UTMALDG": body(function, load)["UTMALDG"]})),
    ]


def width(i: Instruction) -> int:
    """Registers of a lane that an access of tensor memory moves."""
    return int(next((part[1:] for part in i.modifiers.split(".") if part[:1] == "x" and part[1:].isdigit()), "1"))


def unit_cycles(iteration: list[Instruction], rates: Rates) -> dict[str, float]:
    """As model.unit_cycles, with the additions of this generation: packed operations, and the way to tensor memory."""
    known = [i for i in iteration if i.opcode not in (*PACKED, *TENSOR_MEMORY, PRODUCT)]
    units = model.unit_cycles(known, rates)
    units["issue"] = float(len(iteration))
    units["FP32"] += sum(2 * rates.fp32 for i in iteration if i.opcode in PACKED)
    units["TMEM"] = float(sum(width(i) for i in iteration if i.opcode in TENSOR_MEMORY))
    return units

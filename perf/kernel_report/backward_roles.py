"""The backward kernels whose warps have roles: the instructions of a step of each role, by machine code, and the load of an SM
in a step. A block owns keys and walks through tiles of queries; all five products, and dq added in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import blackwell, images, model, rates
from .backward import ALL, ALL_PRODUCTS
from .images import Image, Tile
from .loops import backward_branches
from .rates import SUB_CORES
from .roles import DEPTH, PRODUCT, Role, around, body, unit_cycles
from .sass import Function, Instruction

WGMMA, TCGEN05 = "backward_wgmma", "backward_tcgen05"
FAMILIES = {WGMMA: ("90a", (64, 96, 128)), TCGEN05: ("100a", (64, 96, 128))}  # dimensions: of their images
CONSUMERS, ROWS = 2, 64  # warpgroups of backward_wgmma, and the keys of each
LANES = 128  # of a warpgroup
HOPPER = 4096  # operations a clock of an SM, dense, f16 or bf16
HANDED = 8  # stores of a lane's part of dq to shared memory: 64 x 64 numbers of a warpgroup
CHUNK = 32  # registers of a lane that an access of tensor memory moves
LOOPS = ("plain", "ALiBi", "softcap")  # which a block chooses once


@dataclass(frozen=True)
class Step:
    """A step without masks."""

    image: Image
    function: Function
    tile: Tile  # rows: queries
    loop: str
    roles: list[Role]  # the first computes scores
    scores: int  # of a lane

    @property
    def a_score(self) -> float:
        return len(self.roles[0].iteration) / self.scores

    @property
    def spills(self) -> int:
        return sum(i.opcode in ("LDL", "STL") for role in self.roles for i in role.iteration)

    @property
    def ideal(self) -> float:
        """Cycles of the tensor cores."""
        operations = 2 * ALL_PRODUCTS * self.tile.rows * self.tile.keys * self.image.dim
        return operations / (blackwell.PRODUCTS if self.image.family == TCGEN05 else HOPPER)

    def iteration(self) -> model.Iteration:
        """Operands of products that are in shared memory count as a part of these."""
        of = (blackwell.RATES if self.image.family == TCGEN05 else rates.RATES)[self.image.sm]
        units: dict[str, float] = {}
        for role in self.roles:
            cycles = unit_cycles(role.iteration, of) if self.image.family == TCGEN05 else model.unit_cycles(role.iteration, of)
            for unit, time in cycles.items():
                units[unit] = units.get(unit, 0) + role.warps * time
        if self.image.family == TCGEN05:
            units["tensor"] = self.ideal
        streamed, added = model.tile_bytes(self.tile.rows, self.image.dim), 4 * self.tile.rows * self.image.dim
        units["shared"] += (streamed + added) / of.shared_bytes
        units["L2"] = (streamed + added) / of.l2_bytes
        return model.Iteration(units, self.ideal, 1, self.tile.keys, self.tile.rows)


def apart(function: Function, found: Callable[[Counter[str]], bool]) -> list[tuple[tuple[int, int], Counter[str]]]:
    """Loops of which found(counts) is true, but for those that share instructions with a shorter one."""
    result: list[tuple[tuple[int, int], Counter[str]]] = []
    for loop in backward_branches(function):
        counts = body(function, loop)
        if found(counts) and all(loop[1] < other[0] or other[1] < loop[0] for other, _ in result):
            result.append((loop, counts))
    return result


def named(function: Function, loops: list[tuple[tuple[int, int], Counter[str]]]) -> dict[str, tuple[int, int]]:
    """Loops of scores by what they modify: a softcap takes reciprocals, and ALiBi more instructions than none."""

    def capped(loop: tuple[int, int]) -> bool:
        its = function.instructions[loop[0] : loop[1] + 1]
        return sum((i.opcode + i.modifiers).startswith("MUFU.RCP") for i in its) >= CHUNK  # a division has one

    others = [loop for loop, _ in loops if not capped(loop)]
    if len(others) != 2 or len(loops) > 3:
        raise SystemExit(f"{function.name}: got {len(loops)} loops of scores, {len(others)} of them without a softcap, expected 3 or 2, and 2")
    return dict(zip(LOOPS, others + [loop for loop, _ in loops if capped(loop)], strict=False))


def exponentials(loop: str, scores: int) -> dict[str, int]:
    return {"MUFU.EX2": 2 * scores, "MUFU.RCP": scores} if loop == LOOPS[2] else {"MUFU.EX2": scores}


def once(function: Function, loop: tuple[int, int], needs: dict[str, int], product: str) -> list[Instruction]:
    way = around(function, loop, needs)
    if (got := sum(i.opcode == product for i in way)) != needs.get(product, got):
        raise SystemExit(f"{function.name}: got {got} {product} around its loop with {needs}, expected {needs[product]}")
    return way


def of_warpgroups(image: Image, function: Function, tile: Tile) -> list[Step]:
    """A consumer has the products of its keys, and dq of half of the queries or of its columns."""
    scores = ROWS * tile.rows // LANES
    products = (2 * image.dim + 2 * tile.rows) // DEPTH + tile.keys // DEPTH
    steps = []
    for name, loop in named(function, apart(function, lambda c: c["HGMMA"] >= products and c["UTMALDG"] == 0)).items():
        way = once(function, loop, {"HGMMA": products, **exponentials(name, scores), "STS.128": HANDED}, "HGMMA")
        steps.append(Step(image, function, tile, name, [Role("scores", CONSUMERS * LANES // 32 // SUB_CORES, way)], scores))
    return steps


def of_tensor_memory(image: Image, function: Function, tile: Tile) -> list[Step]:
    """A thread of two warpgroups has a key and half of the queries."""
    scores = tile.rows // 2
    products = (2 * image.dim + 2 * tile.rows + tile.keys) // DEPTH
    (multiplying, *_) = (loop for loop, _ in apart(function, lambda c: c[PRODUCT] >= products))
    accesses = 2 * -(-image.dim // (2 * CHUNK))  # of 16 rows and 64 columns
    (staging, *_) = (loop for loop, _ in apart(function, lambda c: c["LDTM"] >= accesses and c["SYNCS"] > 3 and c["STTM"] == c[PRODUCT] == 0))
    (adding, *_) = (loop for loop, _ in apart(function, lambda c: c["UBLKRED"] > 0))
    others = [Role("products", 1, once(function, multiplying, {PRODUCT: products}, PRODUCT)),
              Role("dq", 1, around(function, staging, {"LDTM": accesses})), Role("adds", 0, around(function, adding, {"UBLKRED": 1}))]  # fmt: skip
    steps = []
    for name, loop in named(function, apart(function, lambda c: c["STTM"] >= 4 and c["SYNCS"] >= 5 and c[PRODUCT] == 0)).items():
        needs = {"LDTM": 2 * scores // CHUNK, "STTM": 2 * scores // CHUNK, **exponentials(name, scores)}
        way = once(function, loop, needs, "LDTM")
        steps.append(Step(image, function, tile, name, [Role("scores", 2, way), *others], scores))
    return steps


def steps(build: Path, tools: Path, tiles: dict[tuple[str, int, int, str], Tile]) -> list[Step]:
    """Those of the images that a build has."""
    result = []
    for family, (arch, dims) in FAMILIES.items():
        for dim in dims:
            image = Image.of(build / "kernels" / f"sm_{arch}.{family}.bf16.{dim}.fatbin")
            if image is None or not image.path.exists():
                continue
            (function,) = [f for f in images.functions(image.path, tools) if f.name == ALL]
            tile = tiles[family, image.sm, dim, ALL]
            result += (of_tensor_memory if family == TCGEN05 else of_warpgroups)(image, function, tile)
    return result

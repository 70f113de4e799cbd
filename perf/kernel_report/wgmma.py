"""The instructions between and after a loop's products of warpgroups (wgmma, HGMMA in machine code). They run on by themselves, but
not where a warp waits for each of them, or touches its sums on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from . import roles
from .loops import Loop
from .sass import Function, Instruction

ROWS = 64  # of a warpgroup's product
THREADS = 128
OPCODES = ("HGMMA", "QGMMA")
# The uniform datapath, which works in parallel with the others: descriptors of the next product's operands.
UNIFORM = re.compile(r"U[A-Z0-9]+$|R2UR$")
REGISTER = re.compile(r"\bR(\d+)\b")
MOVES = ("MOV", "IMAD.MOV", "IMAD.MOV.U32", "R2R")
SERIALISED = re.compile(r"C75\d\d")  # ptxas' warnings of products that it made wait


# Entry::score_mod's instructions in an iteration of a feature, by the number of a lane's scores (collective/deferred_score_mod.cuh): a softcap's
# tangent is an exponential and a reciprocal; distances of ALiBi are multiply-adds, behind which maxima come before weights.
FEATURES = {
    "softcap": {"MUFU.EX2": (2, 0), "MUFU.RCP": (1, 0)},
    "ALiBi": {"MUFU.EX2": (1, 0), "FFMA": (2, 0), "FMNMX": (1, -2)},
}


def with_feature(function: Function, loop: Loop, feature: str) -> list[Instruction] | None:
    """The iteration of a loop in which a feature is switched on; None where the loop does not have it."""
    scores = loop.counts["MUFU"]
    needs = {kind: each * scores + more for kind, (each, more) in FEATURES[feature].items()}
    body = function.instructions[loop.begin : loop.end + 1]
    if any(sum((i.opcode + i.modifiers).startswith(kind) for i in body) < times for kind, times in needs.items()):
        return None
    return roles.around(function, (loop.begin, loop.end), {**needs, "HGMMA": loop.tensor})


def columns(product: Instruction) -> int:
    """The columns of a product: 176 of ".64x176x16.F32.BF16"."""
    return int(product.modifiers.split("x")[1])


def sums(product: Instruction) -> range:
    """Registers of a lane that hold the product's results, in f32."""
    found = REGISTER.search(product.operands)
    first = int(found[1]) if found else 0
    return range(first, first + columns(product) * ROWS // THREADS)


@dataclass(frozen=True)
class Products:
    """The products of an iteration of a warpgroup."""

    columns: int  # of all products; one takes half as many cycles
    groups: int  # that it waits for as a whole
    between: int  # instructions between two products of a group, at most; uniform ones do not count
    moves: int  # of sums from or to other registers
    lonely: int  # groups of one product that the very next instructions wait for


def is_product(i: Instruction) -> bool:
    return i.opcode in OPCODES


def is_wait(i: Instruction) -> bool:
    return i.opcode == "WARPGROUP" and ".DEPBAR" in i.modifiers


def is_move(i: Instruction) -> bool:
    return i.opcode + i.modifiers in MOVES


def products(loop: list[Instruction]) -> Products | None:
    """None without products."""
    at = [n for n, i in enumerate(loop) if is_product(i)]
    if not at:
        return None
    held = {register for n in at for register in sums(loop[n])}
    moves = sum(is_move(i) and any(int(r) in held for r in REGISTER.findall(i.operands)) for i in loop)
    groups: list[list[int]] = [[]]
    for n in at:
        groups[-1].append(n)
        if "gsb" in loop[n].operands:
            groups.append([])
    groups = [group for group in groups if group]
    gaps = [
        sum(not UNIFORM.match(i.opcode) for i in loop[here + 1 : after]) for group in groups for here, after in pairwise(group)
    ]
    lonely = sum(len(group) == 1 and waits_at_once(loop, group[0]) for group in groups)
    return Products(sum(columns(loop[n]) for n in at), len(groups), max(gaps, default=0), moves, lonely)


def waits_at_once(loop: list[Instruction], product: int) -> bool:
    """For all products, before anything but uniform instructions."""
    rest = [i for i in loop[product + 1 :] if not UNIFORM.match(i.opcode)]
    return bool(rest) and is_wait(rest[0]) and int(rest[0].operands.split(",")[1], 0) == 0


def warnings(image: Path) -> int:
    """ptxas's warnings, in the file that the build keeps next to an image: that products wait for one another. 0 without one."""
    log = image.with_suffix(".ptxas")
    return len(SERIALISED.findall(log.read_text())) if log.exists() else 0

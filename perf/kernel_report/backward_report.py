"""Our backward kernels by the model of backward.py: their loops, and a published call of others, next to their goals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import backward, backward_peers, backward_roles, images, model, peers
from .analysis import analyse
from .goals import Verdict, at_least, at_most
from .rates import GPUS
from .render import UNITS, predicted, table
from .sass import Function

# Boards by the names of rates.py, with the architecture and type of their images.
BOARDS = {"T4": ("75", "f16"), "A100": ("80", "bf16"), "L4": ("89", "bf16"), "H100 mma.sync": ("90a", "bf16"),
          "H200 mma.sync": ("90a", "bf16"), "RTX PRO 6000": ("120", "bf16")}  # fmt: skip
DIMS = (32, 64, 96, 128, 192, 256)

TWO, FIXED, ANY = "two passes", "one, in a fixed order", "one, in any order"  # ways to compute all gradients
WAYS = {TWO: (backward.QUERIES, backward.KEYS), FIXED: (backward.ALL,), ANY: (backward.ALL,)}
FASTER = {"A100": (150, 180), "RTX PRO 6000": (300, 350)}  # TFLOP/s at head dimension 128, deterministic and not
OF_FORWARD = {"T4": 0.8, "L4": 0.8}  # of the fraction of the peak that the forward pass has
OF_FA2 = 0.9  # instructions a score


@dataclass(frozen=True)
class Pass:
    """A launch of a backward call."""

    entry: str
    image: images.Image
    function: Function
    iteration: backward.Iteration

    @property
    def spills(self) -> int:
        return int(self.iteration.count("LDL") + self.iteration.count("STL"))

    @property
    def a_score(self) -> float:
        return self.iteration.issued / self.iteration.scores


@dataclass(frozen=True)
class Kernel:
    """The passes of an image."""

    board: str
    image: images.Image
    passes: list[Pass]
    longer: dict[backward.Call, float]  # times that a launch in a fixed order takes

    @property
    def ways(self) -> dict[str, list[Pass]]:
        """In which gradients may be computed, of those whose loops the model knows."""
        its = {one.entry: one for one in self.passes}
        return {way: [its[entry] for entry in of] for way, of in WAYS.items() if its.keys() >= set(of)}

    def teraflops(self, call: backward.Call, way: str) -> float:
        gpu = GPUS[self.board]
        seconds = backward.other_seconds(gpu, call, way != TWO)
        for one in self.ways[way]:
            iteration = one.iteration.on(self.image, one.function)
            seconds += backward.launch_seconds(iteration, gpu, one.entry, call) * (self.longer[call] if way == FIXED else 1)
        return call.operations / seconds / 1e12

    def fastest(self, call: backward.Call, *without: str) -> float:
        return max(self.teraflops(call, way) for way in self.ways if way not in without)

    @property
    def a_score(self) -> float:
        """The instructions a score of the way that issues fewest."""
        return min(sum(one.a_score for one in passes) for passes in self.ways.values())


def path_of(build: Path, arch: str, dtype: str, dim: int) -> Path:
    return build / "kernels" / f"sm_{arch}.backward_mma.{dtype}.{dim}.fatbin"


def kernel(
    board: str, build: Path, dim: int, tools: Path, tiles: dict[tuple[str, int, int, str], images.Tile], compiler: str
) -> Kernel:
    arch, dtype = BOARDS[board]
    image = images.Image.of(path_of(build, arch, dtype, dim))
    assert image is not None
    passes = []
    for function in images.functions(image.path, tools):
        if not any(i.opcode == "HMMA" for i in function.instructions):
            continue  # an entry point without a body
        if backward.waits_for_copies(image, function):
            continue
        found = backward.iteration(image, function, tiles[image.family, image.sm, dim, function.name])
        if found is None:
            raise SystemExit(f"{image.path}: {function.name}: got no tensor-core loop, expected one")
        passes.append(Pass(function.name, image, function, found))
    longer = {
        call: backward.longer_in_order(one.iteration.owned, one.iteration.walked, GPUS[board], one.iteration.on(image, one.function).blocks, call, compiler)
        for one in passes if one.entry == backward.ALL for call in anchors(dim)
    }  # fmt: skip
    return Kernel(board, image, passes, longer)


def loop_rows(kernels: list[Kernel]) -> Iterator[list[str]]:
    images_of = {of.image.path: of for of in kernels}  # two boards may have one
    for of in images_of.values():
        for one in of.passes:
            iteration, asked = one.iteration, one.iteration.on(of.image, one.function)
            tensor = f"{iteration.count('HMMA'):.0f} / {backward.tensor_ideal(of.image, iteration, one.entry):.0f}"
            yield [f"sm_{of.image.arch} {of.image.dtype} hd{of.image.dim} {one.entry}", f"{iteration.owned} x {iteration.walked}",
                   " and ".join(str(len(way)) for way in iteration.ways), tensor, f"{one.a_score:.1f}",
                   *(f"{asked.units[unit]:.0f}" for unit in UNITS), f"{asked.cycles:.0f}", asked.limit,
                   f"{100 * asked.of_peak(GPUS[of.board]):.0f} %", str(one.function.registers), str(one.spills),
                   str(asked.blocks)]  # fmt: skip


def step_rows(steps: list[backward_roles.Step]) -> Iterator[list[str]]:
    for step in steps:
        iteration = step.iteration()
        issued = ", ".join(f"{role.name} {len(role.iteration)}" for role in step.roles)
        yield [f"sm_{step.image.arch} {step.image.family} hd{step.image.dim}, {step.loop}", f"{step.tile.keys} x {step.tile.rows}",
               issued, f"{step.a_score:.1f}", *(f"{iteration.units.get(unit, 0):.0f}" for unit in (*UNITS, "TMEM")), f"{iteration.cycles:.0f}",
               iteration.limit, f"{100 * step.ideal / iteration.cycles:.0f} %", str(step.function.registers), str(step.spills)]  # fmt: skip


def anchors(dim: int) -> tuple[backward.Call, backward.Call]:
    """Full and causal, as others publish it at head dimension 128."""
    full, causal = (backward.Call(2, 64, 8, 8192, dim, causal) for causal in (False, True))
    return full, causal


def call_rows(kernels: list[Kernel]) -> Iterator[list[str]]:
    for of in kernels:
        for call in anchors(of.image.dim):
            speeds = {way: of.teraflops(call, way) for way in of.ways}
            cells = {way: f"{speed:.0f}, {100 * speed / GPUS[of.board].peak:.0f} %" for way, speed in speeds.items()}
            peer = backward_peers.fa2(of.board, call)
            if cells:
                yield [of.board, call.text, *(cells.get(way, "") for way in WAYS), f"{peer.modelled:.0f}" if peer else ""]


def forward_fraction(of: Kernel, call: backward.Call, tools: Path, tiles: dict[tuple[str, int, int, str], images.Tile]) -> float:
    """The fraction of the peak that the forward pass of mma.sync has in a call."""
    path = of.image.path.with_name(of.image.path.name.replace(".backward_mma.", ".mma."))
    image = images.Image.of(path)
    assert image is not None
    plain = next(f for f in images.functions(image.path, tools) if f.name == "fa_forward_plain")
    entry = analyse(image, plain, tiles[image.family, image.sm, image.dim, plain.name])
    assert entry is not None and entry.iteration is not None
    gpu = GPUS[of.board]
    return model.teraflops(entry.iteration, gpu, call.rows, call.dim, call.batch * call.heads, call.causal) / gpu.peak


def fa2_a_score(dim: int) -> float:
    """The instructions a score of FlashAttention-2's loop of five products on an A100, without masks."""
    (loop,) = [one for one in peers.LOOPS if one.backward and one.dim == dim and one.name.endswith("full") and ".sm_80." in one.name]
    (reading,) = [r for r in peers.READINGS if r.loop == loop.name]
    return reading.issued * loop.warps * 32 / (loop.rows * loop.keys)


def judge(of: Kernel, tools: Path, tiles: dict[tuple[str, int, int, str], images.Tile]) -> Iterator[Verdict]:
    dim = of.image.dim
    yield at_most("spills in the steady loops", 0, sum(one.spills for one in of.passes))
    if of.board == "A100" and dim in (64, 128):
        goal = OF_FA2 * fa2_a_score(dim)
        yield at_most(f"instructions a score, head dimension {dim}", round(goal, 2), of.a_score)
    if dim != 128:
        return
    for call in anchors(dim):
        mask, speed = "causal" if call.causal else "full", of.fastest(call, ANY)
        if of.board in FASTER:
            deterministic, any_order = FASTER[of.board]
            yield at_least(f"TFLOP/s on {of.board}, deterministic, {mask}", deterministic, speed, True)
            yield at_least(f"TFLOP/s on {of.board}, in any order, {mask}", any_order, of.fastest(call), True)
        if of.board in OF_FORWARD:
            fraction = forward_fraction(of, call, tools, tiles)
            got = speed / GPUS[of.board].peak / fraction
            yield at_least(f"of the forward pass' fraction of the peak, {of.board}, {mask}", OF_FORWARD[of.board], got, True)


def goal_rows(kernels: list[Kernel], tools: Path, tiles: dict[tuple[str, int, int, str], images.Tile]) -> Iterator[list[str]]:
    found: dict[tuple[str, str], list[Verdict]] = {}
    for of in kernels:
        for verdict in judge(of, tools, tiles):
            found.setdefault((verdict.what, verdict.goal), []).append(verdict)
    for (what, goal), its in found.items():
        worst = (max if goal[0] == "<" else min)(its, key=lambda verdict: verdict.got)
        met = sum(verdict.met for verdict in its)
        reached = "reached in the model" if worst.modelled else "reached"
        yield [what, goal, f"{worst.got:.3g}", f"{met} of {len(its)}", reached if met == len(its) else "**missed**"]


def text(build: Path, tools: Path, compiler: str) -> str:
    tiles = images.tiles(compiler)
    boards = [board for board, (arch, dtype) in BOARDS.items() if path_of(build, arch, dtype, DIMS[0]).exists()]
    kernels = [kernel(board, build, dim, tools, tiles, compiler) for board in boards for dim in DIMS]
    steps = backward_roles.steps(build, tools, tiles)
    if not kernels and not steps:
        raise SystemExit(f"{build}: got no image of backward_mma, backward_wgmma or backward_tcgen05, expected a build with FA_KERNELS=embed")
    head = ["kernel", "owned x walked", "issued, by way", "tensor / ideal", "a score", *UNITS, "iteration", "limit", "of the peak",
            "registers", "spills", "blocks an SM"]  # fmt: skip
    of_roles = ["kernel", "owned x walked", "issued", "a score", *UNITS, "TMEM", "step", "limit", "at most of the peak", "registers",
                "spills"]  # fmt: skip
    return "\n".join([
        "## The backward pass\n\nBy [its model](kernel-model.md#the-backward-pass), **not yet measured on hardware**. A step without masks;"
        " cycles of a\nsub-core for an iteration of all its warps:\n",
        predicted(head, list(loop_rows(kernels))),
        "TFLOP/s of the five products and the part of the peak, by the ways to compute them; then FlashAttention-2's loop in any"
        " order by the\nsame model, where it is at hand:\n",
        predicted(["GPU", "call", *WAYS, "FlashAttention-2's"], list(call_rows(kernels))),
        table(["figure", "goal", "worst", "met by", "verdict"], list(goal_rows(kernels, tools, tiles))),
        "Kernels whose warps have roles: a step without masks, instructions of a warp by role, and the part of the peak that these units"
        " leave\nat most, as the waits of roles for one another are left out:\n",
        predicted(of_roles, list(step_rows(steps))),
    ])  # fmt: skip

"""perf/kernel-report --simulate BUILD: the event simulation of warpgroups' roles, held to published and measured speeds; the waits of our
roles, and the effects of changes to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from . import backward_roles, images, loops, role_backward, role_calls, role_code, role_forward
from .images import Tile
from .peers import LOOPS
from .rates import GPUS
from .render import table
from .role_calls import Call
from .role_code import Place
from .simulation import Join, Multiply, Result, Step, Work

Tiles = dict[tuple[str, int, int, str], Tile]
PLAIN = "fa_forward_plain"
NEAR = 0.1
GOALS = {64: "450, 480", 128: "500, 540; then 600, 630"}  # TFLOP/s, causal and full


@dataclass(frozen=True)
class Figure:
    kernel: str
    gpu: str
    call: Call
    teraflops: float  # published


# [A] FlashAttention-3's paper: 16384 tokens, 2048 columns. [2754] FlashAttention's pull request, 32768 tokens; [1893] its issue. [C]
# cudnn-frontend, as in peers.py: 2 sequences of 64 heads. [O] ours: bench/results/nvidia-h200, by tickets where those were measured.
def of_lengths(kernel: str, gpu: str, dim: int, causal: bool, figures: dict[int, float], tokens: int = 16384) -> list[Figure]:
    return [Figure(kernel, gpu, Call(max(1, tokens // rows) * 2048 // dim, rows, causal), speed) for rows, speed in figures.items()]


H100, H200 = "H100 wgmma", "H200 wgmma"
FORWARD = [
    *of_lengths("FA3 hd128 128x176", H100, 128, False, {1024: 565, 4096: 638, 16384: 648}),
    *of_lengths("FA3 hd128 128x128", H100, 128, True, {1024: 423, 4096: 579, 16384: 616}),
    *of_lengths("FA3 hd128 128x128", H200, 128, True, {1024: 511, 4096: 690, 16384: 695}, 32768),  # [2754]
    *of_lengths("FA3 hd64 192x128", H100, 64, False, {1024: 392, 4096: 476, 16384: 497}),
    *of_lengths("FA3 hd64 192x128", H100, 64, True, {1024: 265, 4096: 420, 16384: 473}),
    *of_lengths("FA3 hd256 128x80", H100, 256, False, {1024: 639, 4096: 736, 16384: 756}),
    *of_lengths("FA3 hd256 128x80", H100, 256, True, {1024: 427, 4096: 612, 16384: 642}),
    Figure("wgmma hd64", H200, Call(128, 8192), 485),  # [O], to the end
    Figure("wgmma hd64", H200, Call(128, 8192, True), 461),
    Figure("wgmma hd128", H200, Call(128, 8192), 741),
    Figure("wgmma hd128", H200, Call(128, 2048), 659),
    Figure("wgmma hd128", H200, Call(128, 2048, True), 516),
    Figure("wgmma hd128", H200, Call(64, 4096, True), 624),
    Figure("wgmma hd128", H200, Call(16, 16384), 757),
    Figure("wgmma hd128", H200, Call(16, 16384, True), 690),
    Figure("wgmma hd256", H200, Call(128, 8192), 826),
    Figure("wgmma hd256", H200, Call(128, 8192, True), 787),
]
BACKWARD = [
    *of_lengths("FA3 hd128 80x128", H100, 128, False, {1024: 424, 4096: 542, 16384: 561}),
    *of_lengths("FA3 hd64 128x128", H100, 64, False, {1024: 363, 4096: 453, 16384: 474}),
    Figure("FA3 hd128 64x128", H100, Call(32, 8192, True), 575),  # [1893], as the next
    Figure("FA3 hd128 64x128", H100, Call(32, 8192, True, True), 474),
    Figure("FA3 hd128 80x128", H200, Call(128, 8192), 656),  # [C], FlashAttention-4 to the next comment: the same tiles and order
    Figure("FA3 hd128 64x128", H200, Call(128, 8192, True), 629),
    Figure("FA3 hd128 80x128", H200, Call(128, 8192, False, True), 608),
    Figure("FA3 hd128 64x128", H200, Call(128, 8192, True, True), 555),
    Figure("backward_wgmma hd64", H200, Call(128, 8192, group=8), 469),  # [O]
    Figure("backward_wgmma hd128", H200, Call(128, 8192, group=8), 509),
    Figure("backward_wgmma hd128", H200, Call(128, 8192, True, group=8), 442),
]


def plain(build: Path, tools: Path, dim: int) -> list[Step | Place]:
    path = build / "kernels" / f"sm_90a.wgmma.bf16.{dim}.fatbin"
    (function,) = [f for f in images.functions(path, tools) if f.name == PLAIN]
    loop = loops.steady_loop(function)
    if loop is None:
        raise SystemExit(f"{path}: got no loop with products, expected one")
    return role_code.translate(loop.steady)


def forward_kernels(build: Path, tools: Path, tiles: Tiles) -> dict[str, role_forward.Kernel]:
    found = [role_forward.fa3(one, H100) for one in LOOPS if one.name.startswith("fa3")]
    for dim in (64, 128, 256):
        tile = tiles["wgmma", 90, dim, PLAIN]
        found.append(role_forward.Kernel(f"wgmma hd{dim}", dim, tile.keys, plain(build, tools, dim), tile.rows // 64, tile.stages, keys_first=False))
    return {of.name: of for of in found}


def backward_kernels(build: Path, tools: Path, tiles: Tiles) -> dict[str, role_backward.Kernel]:
    loops_of = {
        step.image.dim: (step.tile.rows, role_code.translate(step.roles[0].iteration))
        for step in backward_roles.steps(build, tools, tiles)
        if step.image.family == backward_roles.WGMMA and step.loop == backward_roles.LOOPS[0]
    }
    found = [role_backward.ours(dim, *loops_of[dim]) for dim in (64, 128)]
    found += [role_backward.fa3(f"FA3 hd{dim} {queries}x128", dim, queries, loops_of[dim][1]) for dim, queries in ((64, 128), (128, 80), (128, 64))]
    return {of.name: of for of in found}


def near(errors: Iterable[float]) -> str:
    found = list(errors)
    return f"{sum(abs(e) <= NEAR for e in found)} of {len(found)}"


def held(figures: list[Figure], simulated: dict[Figure, float]) -> str:
    """A kernel, board and mask a row, with all lengths."""
    its: dict[tuple[str, ...], list[Figure]] = {}
    for one in figures:
        mask = ("causal" if one.call.causal else "full") + ", in a fixed order" * one.call.fixed_order
        its.setdefault((one.kernel, one.gpu.split()[0], mask), []).append(one)
    rows = [[*key, ", ".join(one.call.text for one in of), ", ".join(f"{one.teraflops:.0f}" for one in of),
             ", ".join(f"{simulated[one]:.0f}" for one in of), ", ".join(f"{100 * error(one, simulated):+.0f}" for one in of) + " %"]
            for key, of in its.items()]  # fmt: skip
    head = ["kernel", "GPU", "mask", "heads x rows", "published TFLOP/s", "simulated", "error"]
    return table(head, rows) + f"\n{near(error(one, simulated) for one in figures)} are within 10 %.\n"


def error(one: Figure, simulated: dict[Figure, float]) -> float:
    return simulated[one] / one.teraflops - 1


def waits(of: str, result: Result) -> Iterator[list[str]]:
    for role in result.waited:
        what, cycles = result.largest_wait(role)
        yield [of, role, what, f"{100 * cycles / result.cycles:.0f} %", f"{100 * result.tensor / result.cycles:.0f} %"]


def bare(step: list[Step]) -> list[Step]:
    """Without the instructions between products of a group, but for exponentials: operands' addresses, most of them."""
    return [one for before, one in zip([Join(), *step], step, strict=False)
            if not (isinstance(before, Multiply) and not before.ends and isinstance(one, Work) and "MUFU" not in one.units)]  # fmt: skip


def forward_changes(of: role_forward.Kernel) -> dict[str, role_forward.Kernel]:
    return {
        "as it is": of,
        "a tile's first keys ahead of its queries": replace(of, keys_first=True),
        "one more stage": replace(of, stages=of.stages + 1),
        "no turns": replace(of, pingpong=False, loop=[one for one in of.loop if not (isinstance(one, Place) and one.kind.startswith("BAR"))]),
        "three warpgroups": replace(of, consumers=3),
    }


def backward_changes(of: role_backward.Kernel, others: dict[str, role_backward.Kernel]) -> dict[str, role_backward.Kernel]:
    theirs = {f"{one.queries} queries in FlashAttention-3's order": one for one in others.values() if one.dim == of.dim and one is not of}
    return {"as it is": of, "one more stage": replace(of, stages=of.stages + 1), "products back to back": replace(of, step=bare(of.step)), **theirs}


def text(build: Path, tools: Path, compiler: str) -> str:
    tiles = images.tiles(compiler)
    forward, backward = forward_kernels(build, tools, tiles), backward_kernels(build, tools, tiles)
    simulated = {one: role_calls.forward(forward[one.kernel], GPUS[one.gpu], one.call) for one in FORWARD}
    simulated |= {one: role_calls.backward(backward[one.kernel], GPUS[one.gpu], one.call) for one in BACKWARD}
    ours = [of for of in forward.values() if of.name.startswith("wgmma")], [of for of in backward.values() if of.loops_over_group]
    its_waits = [row for of in ours[0] for row in waits(of.name, role_forward.simulate(of, 32))]
    its_waits += [row for of in ours[1] for row in waits(of.name, role_backward.simulate(of, 64))]
    gpu, call = GPUS[H200], Call(128, 8192, group=8)
    changes = [[of.name, what, *(f"{role_calls.forward(one, gpu, replace(call, causal=causal)):.0f}" for causal in (True, False))]
               for of in ours[0] for what, one in forward_changes(of).items()]  # fmt: skip
    changes += [[of.name, what, *(f"{role_calls.backward(one, gpu, replace(call, causal=causal)):.0f}" for causal in (True, False))]
                for of in ours[1] for what, one in backward_changes(of, backward).items()]  # fmt: skip
    orders = [[of.name, *(f"{role_calls.backward(of, gpu, replace(call, causal=causal, fixed_order=fixed)):.0f}"
                         for fixed in (False, True) for causal in (True, False)), GOALS[of.dim]] for of in ours[1]]  # fmt: skip
    return "\n".join([
        "## Roles of warpgroups, simulated",
        held(FORWARD, simulated),
        held(BACKWARD, simulated),
        table(["kernel (simulated)", "role", "largest wait", "of its time", "tensor cores busy"], its_waits),
        table(["H200, 2 x 64/8 x 8192 (simulated TFLOP/s)", "change", "causal", "full"], changes),
        table(["gradients (simulated TFLOP/s)", "any order, causal", "full", "in a fixed order, causal", "full", "goal in any order"], orders),
    ])  # fmt: skip

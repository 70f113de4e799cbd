"""perf/kernel-report --simulate BUILD: the event simulation of kernels whose warps have roles, held to published and measured speeds; the
waits of our roles, and the effects of changes to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from . import backward_roles, blackwell, images, loops, role_backward, role_calls, role_code, role_forward, role_tensor, roles
from .images import Tile
from .peers import LOOPS
from .render import table
from .role_calls import Call
from .role_code import Place
from .role_published import BACKWARD, BOARDS, FORWARD, H100, H200, Figure
from .sass import Function
from .simulation import Join, Multiply, Step, Work

Tiles = dict[tuple[str, int, int, str], Tile]
OfForward = role_forward.Kernel | role_tensor.Forward
OfBackward = role_backward.Kernel | role_tensor.Backward
PLAIN = "fa_forward_plain"
NEAR = 0.1
B200 = "B200"
GOALS = {"backward_wgmma hd64": "450, 480", "backward_wgmma hd128": "500, 540; then 600, 630",  # TFLOP/s, causal and full
         "backward_tcgen05 hd128": "800, 900; then 1150, 1250 with two CTAs"}  # fmt: skip


def plain(build: Path, tools: Path, name: str) -> Function:
    return next(f for f in images.functions(build / "kernels" / f"{name}.fatbin", tools) if f.name == PLAIN)


def forward_kernels(build: Path, tools: Path, tiles: Tiles) -> dict[str, OfForward]:
    found: list[OfForward] = [role_forward.fa3(one, H100) for one in LOOPS if one.name.startswith("fa3")]
    found += [role_tensor.fa4(one) for one in blackwell.kept().values()]
    for dim in (64, 128, 256):
        tile = tiles["wgmma", 90, dim, PLAIN]
        loop = loops.steady_loop(plain(build, tools, f"sm_90a.wgmma.bf16.{dim}"))
        assert loop
        found.append(role_forward.Kernel(f"wgmma hd{dim}", dim, tile.keys, role_code.translate(loop.steady), tile.rows // 64, tile.stages,
                                         keys_first=False))  # fmt: skip
    for dim in (64, 128):
        tile = tiles["tcgen05", 100, dim, PLAIN]
        its = roles.roles(plain(build, tools, f"sm_100a.tcgen05.bf16.{dim}"), dim, dim, tile.keys, False)
        found.append(role_tensor.ours(f"tcgen05 hd{dim}", dim, tile.keys, tile.stages, its))
    return {of.name: of for of in found}


def backward_kernels(build: Path, tools: Path, tiles: Tiles) -> dict[str, OfBackward]:
    steps = [step for step in backward_roles.steps(build, tools, tiles) if step.loop == backward_roles.LOOPS[0] and step.image.dim != 96]
    found: list[OfBackward] = []
    for step in steps:
        name, dim = f"{step.image.family} hd{step.image.dim}", step.image.dim
        if step.image.family == backward_roles.WGMMA:
            loop = role_code.translate(step.roles[0].iteration)
            found.append(role_backward.ours(dim, step.tile.rows, loop))
            found += [role_backward.fa3(f"FA3 hd{dim} {n}x128", dim, n, loop) for n in ((128,) if dim == 64 else (80, 64))]
        else:
            ours = role_tensor.our_gradients(name, dim, step.roles)
            theirs = replace(ours, name=f"FA4 hd{dim}", loops_over_group=False, adder=False)
            found += [ours, theirs, replace(pair_of_fa4(theirs), name=f"{theirs.name}, two CTAs")]
    return {of.name: of for of in found}


def pair_of_fa4(of: role_tensor.Backward) -> role_tensor.Backward:
    return replace(of, order=role_tensor.FA4_PAIR, fixed=role_tensor.FA4_PAIR, ctas=2, late=False)


def forward_speed(of: OfForward, gpu: str, call: Call) -> float:
    return role_calls.forward(of.tile, BOARDS[gpu], call)


def backward_speed(of: OfBackward, gpu: str, call: Call) -> float:
    return role_calls.backward(of.blocks[call.fixed_order], BOARDS[gpu], call)


def near(errors: Iterable[float]) -> str:
    found = list(errors)
    return f"{sum(abs(e) <= NEAR for e in found)} of {len(found)}"


def held(figures: list[Figure], simulated: dict[Figure, float]) -> str:
    """A kernel and board a row, with all calls."""
    its: dict[tuple[str, str], list[Figure]] = {}
    for one in figures:
        its.setdefault((one.kernel, one.gpu.split()[0]), []).append(one)
    rows = [[*key, "; ".join(one.call.text for one in of), ", ".join(f"{one.teraflops:.0f}" for one in of),
             ", ".join(f"{simulated[one]:.0f}" for one in of), ", ".join(f"{100 * error(one, simulated):+.0f}" for one in of)]
            for key, of in its.items()]  # fmt: skip
    found = near(error(one, simulated) for one in figures)
    return table(["kernel", "GPU", "heads x rows", "published TFLOP/s", "simulated", "error, %"], rows) + f"\n{found} are within 10 %.\n"


def error(one: Figure, simulated: dict[Figure, float]) -> float:
    return simulated[one] / one.teraflops - 1


def waits(of: OfForward | OfBackward) -> Iterator[list[str]]:
    result = of.run()
    for role in result.waited:
        what, cycles = result.largest_wait(role)
        yield [of.name, role, what, f"{100 * cycles / result.cycles:.0f} %", f"{100 * result.tensor / result.cycles:.0f} %"]


def bare(step: list[Step]) -> list[Step]:
    """Without the instructions between products of a group, but for exponentials: operands' addresses, most of them."""
    return [one for before, one in zip([Join(), *step], step, strict=False)
            if not (isinstance(before, Multiply) and not before.ends and isinstance(one, Work) and "MUFU" not in one.units)]  # fmt: skip


def forward_changes(of: OfForward) -> dict[str, OfForward]:
    its: dict[str, OfForward] = {"as it is": of, "one more stage": replace(of, stages=of.stages + 1)}
    if isinstance(of, role_tensor.Forward):
        whole = role_tensor.joined(*of.scores[2:])
        return {**its, "values behind all weights": replace(of, scores=[*of.scores[:2], whole]), "products of two CTAs": replace(of, ctas=2)}
    loose = [one for one in of.loop if not (isinstance(one, Place) and one.kind.startswith("BAR"))]
    return {**its, "a tile's first keys ahead of its queries": replace(of, keys_first=True), "no turns": replace(of, pingpong=False, loop=loose),
            "three warpgroups": replace(of, consumers=3)}  # fmt: skip


def backward_changes(of: OfBackward, others: Iterable[OfBackward]) -> dict[str, OfBackward]:
    if isinstance(of, role_tensor.Backward):
        return {"as it is": of, "dV ahead of dP": replace(of, order=role_tensor.DV_FIRST, fixed=role_tensor.DV_FIRST),
                "added by the warps of dQ": replace(of, adder=False),
                "products of two CTAs": replace(of, ctas=2, late=False), "and FlashAttention-4's order": pair_of_fa4(of)}  # fmt: skip
    theirs: dict[str, OfBackward] = {
        f"{one.queries} queries, FlashAttention-3's order": replace(one, loops_over_group=True)
        for one in others if isinstance(one, role_backward.Kernel) and one.dim == of.dim and one is not of
    }  # fmt: skip
    return {"as it is": of, "one more stage": replace(of, stages=of.stages + 1), "products back to back": replace(of, step=bare(of.step)),
            "warpgroups begin 600 cycles apart": replace(of, apart=600), **theirs}  # fmt: skip


def text(build: Path, tools: Path, compiler: str) -> str:
    tiles = images.tiles(compiler)
    forward, backward = forward_kernels(build, tools, tiles), backward_kernels(build, tools, tiles)
    simulated = {one: forward_speed(forward[one.kernel], one.gpu, one.call) for one in FORWARD}
    simulated |= {one: backward_speed(backward[one.kernel], one.gpu, one.call) for one in BACKWARD}
    ours = [of for of in forward.values() if of.name[:2] != "FA"]
    gradients = [of for of in backward.values() if of.loops_over_group]
    calls = [Call(128, 8192, causal, group=8) for causal in (True, False)]

    def board(name: str) -> str:
        return B200 if "tcgen05" in name else H200

    changes = [[of.name, what, *(f"{forward_speed(one, board(of.name), call):.0f}" for call in calls)]
               for of in ours for what, one in forward_changes(of).items()]  # fmt: skip
    changes += [[of.name, what, *(f"{backward_speed(one, board(of.name), replace(call, fixed_order=fixed)):.0f}" for fixed in (False, True) for call in calls)]
                for of in gradients for what, one in backward_changes(of, backward.values()).items()]  # fmt: skip
    changes = [[*row, *[""] * (6 - len(row)), GOALS.get(row[0], "") if row[1] == "as it is" else ""] for row in changes]
    return "\n".join([
        "## Roles, simulated\n",
        held(FORWARD, simulated),
        held(BACKWARD, simulated),
        table(["kernel (simulated)", "role", "largest wait", "of its time", "tensor cores busy"], [row for of in (*ours, *gradients) for row in waits(of)]),
        table(["H200 or B200, 2 x 64/8 x 8192 (simulated TFLOP/s)", "change", "causal", "full", "in a fixed order, causal", "full", "goal"], changes),
    ])  # fmt: skip

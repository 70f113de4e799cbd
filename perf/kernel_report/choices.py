"""The effects of other choices by the model, none of which is built: shares of exponentials as polynomials, larger tiles, keys
that two blocks share, fewer instructions. From the loops of a build and of FlashAttention-4; a choice changes its own numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from . import blackwell, blackwell_text, images, model, peers
from .analysis import Entry, analyse
from .blackwell import HEADS, SEQUENCES, Counts
from .goals import FA3_GPU, FA3_HEADS, FA3_SEQUENCE, OVER_FA3
from .rates import GPUS, SUB_CORES
from .render import predicted

# The cycles of a warp's exponential as a polynomial instead of MUFU. On tensor memory two of them are packed: by our softmax at
# 64 and at 96 columns, which differ in 8 of 128 exponentials (28 instructions, 54 cycles of FP32 and 4 of ALU). On SM 90 none is
# packed: as many multiply-adds and additions, and integers for the exponent.
PACKED = {"MUFU": -8.0, "issue": 3.5, "FP32": 6.75, "ALU": 0.5}
SINGLE = {"MUFU": -8.0, "issue": 7.5, "FP32": 6.5, "ALU": 4.0}
ROWS = ", ".join(map(str, SEQUENCES)) + " rows"
SOFTMAX = 2  # warps of a sub-core that weigh, of both kernels


def with_polynomials(units: dict[str, float], more: float, cost: dict[str, float]) -> dict[str, float]:
    """more: exponentials of a lane in an iteration, than there are."""
    return {unit: cycles + SOFTMAX * more * cost.get(unit, 0) for unit, cycles in units.items()}


def with_less(units: dict[str, float], issued: float) -> dict[str, float]:
    """issued: instructions of a softmax warp."""
    return {**units, "issue": units["issue"] - SOFTMAX * issued}


@dataclass(frozen=True)
class Choice:
    what: str
    of: Counts


def polynomials(of: Counts, has: float, share: float) -> Counts:
    """share: of all exponentials that are polynomials, of that number."""
    return replace(of, units=with_polynomials(of.units, share * of.keys - has, PACKED))


def of_flash() -> str:
    """FlashAttention-4's causal loops, which have 16 polynomials of 128; on SM 103 none."""
    kept, has = blackwell.kept(), 16
    loops = [kept["sm_100 128/128 causal"], kept["sm_100 64/64 causal"], kept["sm_103 128/128 causal"]]

    def row(what: str, make: Callable[[Counts], Counts]) -> list[str]:
        iterations = [make(of).iteration(of.sm) for of in loops]
        return [what, *(f"{100 * iteration.ideal / iteration.cycles:.1f} %" for iteration in iterations)]

    rows = [
        row("no exponential as a polynomial", lambda of: polynomials(of, 0 if of.sm == 103 else has, 0)),
        row("1 of 8", lambda of: polynomials(of, 0 if of.sm == 103 else has, 1 / 8)),
        row("1 of 4", lambda of: polynomials(of, 0 if of.sm == 103 else has, 1 / 4)),
        row("3 of 8", lambda of: polynomials(of, 0 if of.sm == 103 else has, 3 / 8)),
        row("as it is, products of two CTAs", lambda of: replace(of, ctas=2)),
        row("as it is, half an instruction a score less", lambda of: replace(of, units=with_less(of.units, of.keys / 2))),
    ]
    return predicted(["choice, from FlashAttention-4's causal loop", "128, of the peak", "64", "SM 103, 128"], rows)


def narrow(built: dict[str, Counts]) -> list[Choice]:
    """At 192/128: tiles of 96 keys, a quarter of whose exponentials are polynomials, as in those of 128 at 128 columns. Shared
    memory has room for 128 keys where two blocks share them."""
    ours, wide = built["sm_100a bf16 hd192/128"], built["sm_100a bf16 hd128"]
    products = ours.issued["products"] * wide.keys / ours.keys - wide.issued["products"]
    alone = replace(ours, keys=wide.keys, units={**wide.units, "issue": wide.units["issue"] + products})
    longer = replace(alone, ctas=2)
    return [
        Choice("as it is", ours),
        *(Choice(f"{name} of the exponentials as polynomials", polynomials(ours, ours.keys / 4, share))
          for name, share in (("none", 0), ("1 of 8", 1 / 8), ("1 of 5", 1 / 5), ("1 of 3", 1 / 3))),
        Choice("products of two CTAs", replace(ours, ctas=2)),
        Choice("half an instruction a score less", replace(ours, units=with_less(ours.units, ours.keys / 2))),
        Choice("128 keys, if shared memory had room", alone),
        Choice("products of two CTAs, 128 keys", longer),
        Choice("the same, 1 of 5 as polynomials", polynomials(longer, longer.keys / 4, 1 / 5)),
    ]  # fmt: skip


def against_flash(choices: list[Choice], gpu: str) -> str:
    rows = []
    for choice in choices:
        of, iteration = choice.of, choice.of.iteration(GPUS_OF[gpu])
        times = [
            ", ".join(f"{blackwell.teraflops(of, gpu, s, HEADS, causal) / flash(of, gpu, s, causal):.3f}" for s in SEQUENCES)
            for causal in (False, True)
        ]
        rows.append([choice.what, f"{iteration.cycles:.0f}", f"{iteration.cycles / of.keys:.2f}", *times])
    head = [f"at 192/128 on a {gpu}", "iteration, cycles", "a key", f"times FlashAttention-4, full, {ROWS}", "causal"]
    return predicted(head, rows)


GPUS_OF = {name: gpu.sm for name, gpu in blackwell.GPUS.items()}


def flash(of: Counts, gpu: str, sequence: int, causal: bool) -> float:
    return blackwell.teraflops(blackwell.loop_of(of.dim, of.dim_v, causal, GPUS_OF[gpu]), gpu, sequence, HEADS, causal)


def shared_keys(built: dict[str, Counts], gpu: str) -> str:
    """With one tile of queries a block, blocks in pairs that share keys and values."""
    rows = []
    for dim in (192, 256):
        ours = built[f"sm_100a bf16 hd{dim}"]
        ways = {"no": ours, "by multicast": replace(ours, multicast=2), "products of two CTAs": replace(ours, ctas=2)}
        for way, of in ways.items():
            iteration = of.iteration(100)
            speeds = [
                ", ".join(f"{blackwell.teraflops(of, gpu, s, HEADS, causal):.0f}" for s in SEQUENCES)
                for causal in (False, True)
            ]
            rows.append([str(dim), way, f"{iteration.units['L2']:.0f}", f"{iteration.cycles:.0f}", iteration.limit,
                         f"{100 * iteration.ideal / iteration.cycles:.0f} %", *speeds])  # fmt: skip
    head = ["head dimension", "two blocks share keys", "L2", "iteration, cycles", "limit", "of the peak", f"full, {ROWS}", "causal"]
    return predicted(head, rows)


def of_warpgroups(entry: Entry) -> str:
    """kernels/forward/wgmma at head dimension 128, relative to FlashAttention-3's loops."""
    assert entry.iteration is not None
    iteration, dim, gpu = entry.iteration, entry.image.dim, GPUS[FA3_GPU]
    units, exponentials = iteration.units, entry.counts["MUFU"]
    warps = entry.tile.rows // 16 // SUB_CORES
    products = entry.counts["HGMMA"]
    mathematics = sum(entry.counts.get(name, 0) for name in ("HGMMA", "FFMA", "MUFU", "FADD", "F2FP"))

    def changed(**to: float) -> model.Iteration:
        return replace(iteration, units={**units, **to})

    def longer(rows: int, keys: int) -> model.Iteration:
        scores, loaded = rows * keys / (iteration.rows * iteration.keys), keys / iteration.keys
        of_scores = {unit: cycles * scores for unit, cycles in units.items()}
        of_scores |= {unit: units[unit] * loaded for unit in ("shared", "L2")}
        of_scores["issue"] = warps * rows / iteration.rows * (entry.issued - mathematics + mathematics * keys / iteration.keys)
        return replace(iteration, units=of_scores, ideal=iteration.ideal * scores, rows=rows, keys=keys)

    choices = [
        ("as it is", iteration),
        ("no exponentials", changed(MUFU=0, issue=units["issue"] - warps * exponentials)),
        ("nothing that TMA brings into shared memory", changed(shared=0)),
        ("no instructions but products and exponentials", changed(FP32=0, ALU=0, issue=float(warps * (products + exponentials)))),
        (f"none of the {entry.issued - mathematics} instructions outside the mathematics",
         changed(issue=float(warps * mathematics))),
        *((f"{n} of {exponentials} exponentials as polynomials", replace(iteration, units=with_polynomials(units, n, SINGLE)))
          for n in (4, 8, 12)),
        ("three consumers, 192 rows, 96 keys, if their registers sufficed", longer(192, 96)),
        ("tiles of 144 keys", longer(128, 144)),
    ]  # fmt: skip

    def times(of: model.Iteration, causal: bool) -> float:
        ours = model.teraflops(of, gpu, FA3_SEQUENCE, dim, FA3_HEADS, causal)
        return ours / peers.fa3(dim, causal, FA3_GPU, FA3_SEQUENCE, FA3_HEADS)

    rows = [[what, f"{of.cycles:.0f}", *(f"{times(of, causal):.3f}" for causal in (False, True))] for what, of in choices]
    goal = OVER_FA3[dim]
    asked = []
    for causal in (False, True):
        fewer = next((n for n in range(entry.issued) if times(changed(issue=units["issue"] - warps * n), causal) >= goal), None)
        asked.append(f"{fewer} instructions")
    rows.append([f"fewer, for {goal:g}", "", *asked])
    return predicted(["kernels/forward/wgmma at head dimension 128", "iteration, cycles", "times FlashAttention-3, full", "causal"], rows)


def text(build: Path, tools: Path, compiler: str) -> str:
    tiles, kernels = images.tiles(compiler), build / "kernels"
    image = images.Image.of(kernels / "sm_90a.wgmma.bf16.128.fatbin")
    assert image is not None
    plain = next(f for f in images.functions(image.path, tools) if f.name == "fa_forward_plain")
    entry = analyse(image, plain, tiles["wgmma", image.sm, image.dim, plain.name])
    assert entry is not None
    found = blackwell_text.ours([kernels / f"sm_100a.tcgen05.bf16.{dim}.fatbin" for dim in (128, 192, 256)], tools, tiles)
    built = {of.name: of for of in found}
    return "\n".join([of_warpgroups(entry), of_flash(), against_flash(narrow(built), "B200"), shared_keys(built, "B200")])

"""The report as text (Markdown tables) and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import backward_peers
from .analysis import Entry
from .decode import Decode
from .goals import Verdict, judge, judge_decode
from .fit import left_out
from .loops import TENSOR
from .peers import HELD_OUT, PUBLISHED, Published

UNITS = ("tensor", "MUFU", "FP32", "ALU", "issue", "shared", "L2")


GOALS = ["figure", "goal", "worst", "of", "met by", "verdict"]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def predicted(head: list[str], rows: list[list[str]]) -> str:
    """A table of the model's or the emulator's figures, whose head says that no GPU has measured them."""
    return table([f"{head[0]} (predicted)", *head[1:]], rows)


def loop_row(e: Entry) -> list[str]:
    counts = [str(e.counts.get(name, 0)) for name in ("MUFU", "FFMA", "FMUL", "FMNMX", "LDSM")]
    return [e.label, f"{e.tile.rows}x{e.tile.keys}", str(e.issued), f"{e.tensor} / {e.tensor_ideal:.0f}",
            f"{e.issued / sum(e.counts.get(name, 0) for name in TENSOR):.2f}", f"{e.per_score:.2f}", f"{e.per_score_rest:.2f}", *counts,
            str(e.registers), str(e.spills), str(e.blocks or "?")]  # fmt: skip


def model_row(e: Entry) -> list[str]:
    if e.iteration is None:
        return [e.label] + ["rates not known"] + [""] * 10
    units = [f"{e.iteration.units[u]:.0f}" for u in UNITS]
    fraction = f"{100 * e.of_peak:.0f} %" if e.of_peak is not None else ""
    return [e.label, str(e.gpu), *units, f"{e.iteration.cycles:.0f}", e.iteration.limit, fraction]


def product_row(e: Entry) -> list[str]:
    p = e.products
    assert p
    whole = e.per_score * (e.issued + e.seldom) / e.issued
    return [e.label, f"{e.tensor} / {e.tensor_ideal:.0f}", str(p.groups), str(p.between), str(p.moves), str(p.lonely),
            str(e.warnings), str(e.seldom), f"{whole:.2f}"]  # fmt: skip


def decode_row(d: Decode) -> list[str]:
    return [d.entry.label, " + ".join(d.kernels), f"{d.shape.kv_bytes}", f"{d.read}", f"{d.partial}", f"{d.ratio:.4f}",
            f"{d.grid}, {d.resident:.1f}", f"{d.in_flight / 1024:.0f} KB", f"{d.needed / 1024:.1f} KB",
            f"{d.cycles:.0f} / {d.memory_cycles:.0f}"]  # fmt: skip


def goal_rows(entries: Iterable[Entry], decodes: Iterable[Decode]) -> list[list[str]]:
    return verdict_rows([*((e.label, judge(e)) for e in entries), *((d.entry.label, judge_decode(d)) for d in decodes)])


def verdict_rows(of: Iterable[tuple[str, Iterable[Verdict]]]) -> list[list[str]]:
    """A goal a row, by the kernel that comes furthest from it."""
    verdicts: dict[tuple[str, str], list[tuple[Verdict, str]]] = {}
    for label, found in of:
        for v in found:
            verdicts.setdefault((v.what, v.goal), []).append((v, label))
    rows = []
    for (what, goal), given in verdicts.items():
        worst, label = (max if goal[0] == "<" else min)(given, key=lambda pair: pair[0].got)
        met = sum(v.met for v, _ in given)
        verdict = ("reached in the model" if worst.modelled else "reached") if met == len(given) else "**missed**"
        rows.append([what, goal, f"{worst.got:.4g}", label, f"{met} of {len(given)}", verdict])
    return rows


def text(entries: list[Entry], decodes: list[Decode]) -> str:
    held = (
        f"model\ngives all {len(PUBLISHED)} published figures of other kernels within 10 %."
        if near() == len(PUBLISHED)
        else f"model\nmisses {len(PUBLISHED) - near()} of {len(PUBLISHED)} published figures of other kernels by more than"
        " 10 %: modelled goals do not count as met."
    )
    # Others' loops skip features that a call does not use at run time; of warpgroups' loops it is known which.
    whole = [e for e in entries if e.name == "fa_forward_plain" or e.products]
    parts = [
        "# Kernel report\n\nMade by `perf/kernel-report`; [kernel-model.md](kernel-model.md) has the rules. Counted and modelled,"
        f" **not yet measured on hardware**. The {held}\n\nSteady loop of a warp, one iteration:\n\n",
        table(["kernel", "tile", "issued", "tensor / ideal", "issued an mma", "a score", "of it not mma, ldmatrix", "MUFU",
               "FFMA", "FMUL", "FMNMX", "LDSM", "registers", "spills", "blocks an SM"], [loop_row(e) for e in whole]),
        "\nCycles of a sub-core for an iteration of all its warps, not yet measured on hardware:\n\n",
        predicted(["kernel", "GPU", *UNITS, "iteration", "limit", "of the peak"], [model_row(e) for e in whole]),
    ]  # fmt: skip
    if rows := [product_row(e) for e in whole if e.products]:
        head = ["kernel", "columns / ideal", "groups", "between two products", "moves of sums", "waited for alone",
                "warnings of ptxas", "skipped in most iterations", "a score, these included"]  # fmt: skip
        parts += ["\nProducts of warpgroups in an iteration:\n\n", table(head, rows)]
    shapes = [
        [e.label, str(e.gpu), shape, f"{flops:.0f}", f"{100 * flops / e.peak:.0f} %",
         f"{e.capped[shape]:.0f}" if shape in e.capped else ""]
        for e in entries
        for shape, flops in e.speeds.items()
    ]  # fmt: skip
    if shapes:
        head = ["kernel", "GPU", "shape", "TFLOP/s", "of the peak", "at the power limit"]
        parts += ["\nShapes, not yet measured on hardware:\n\n", predicted(head, shapes)]
    names = ("bank_conflict_factor", "sectors_per_request")
    # Where all copies are in boxes, no warp asks for sectors.
    counted = [
        [e.label, *(f"{e.emulated[name]:.3f}" if e.emulated[name] else "none" for name in names)] for e in entries if e.emulated
    ]
    if counted:
        parts += ["\nCounted by the emulator:\n\n", predicted(["kernel", "bank conflict factor", "sectors a request"], counted)]
    if decodes:
        head = ["kernel", "launches", "K and V, bytes", "read", "unfinished sums", "over K and V", "blocks, an SM",
                "in flight an SM", "needed", "cycles for 64 keys / memory's"]  # fmt: skip
        parts += ["\nDecode of one query of 32 heads over 8192 keys of 8:\n\n", predicted(head, [decode_row(d) for d in decodes])]
    parts += ["\nGoals:\n\n", table(GOALS, goal_rows(entries, decodes))]
    return "".join(parts)


def near() -> int:
    return sum(abs(p.error) <= 0.1 for p in PUBLISHED)


def figures(published: list[Published]) -> str:
    rows = [
        [p.loop.title + (f", for {p.of}" if p.of else ""), p.gpu, str(p.sequence), "causal" if p.causal else "full", f"{p.teraflops:.0f}", f"{p.modelled:.0f}",
         f"{100 * p.error:+.1f} %"] for p in published
    ]  # fmt: skip
    return table(["kernel", "GPU", "S", "mask", "published TFLOP/s", "predicted", "error"], rows)


def peers() -> str:
    """The model compared with published figures: the number within 10 %, and the fits without each family."""
    rows = [
        [one.family, f"{one.fit.overlap:.1f}, {one.fit.fixed:.0f}, {one.fit.moved:.0f}", f"{100 * one.fitted:.1f} %",
         f"{100 * one.rms:.1f} %", f"{100 * one.worst:+.1f} %"] for one in left_out()
    ]  # fmt: skip
    head = ["family left out", "p, cycles a tile, a block", "rms as fitted to all", "rms by the others", "worst by the others"]
    return (
        figures(PUBLISHED) + f"\n{near()} of {len(PUBLISHED)} within 10 %.\n\n" + table(head, rows)
        + "\nFigures that took no part in the fit:\n\n" + figures(HELD_OUT)
        + "\nThe backward pass, to which nothing was fitted:\n\n" + gradients(backward_peers.PUBLISHED)
        + "\nOf others, where their code is not at hand or forward is part of the figure:\n\n" + gradients(backward_peers.OTHERS)
    )  # fmt: skip


def gradients(published: list[backward_peers.Published]) -> str:
    rows = [
        [p.loop.title + (f", for {p.of}" if p.of else ""), p.gpu, p.call.text,
         "deterministic" if p.deterministic else "with forward" if p.forward else "", f"{p.teraflops:.0f}",
         f"{p.modelled:.0f}", f"{100 * p.error:+.1f} %"] for p in published
    ]  # fmt: skip
    return table(["loop", "GPU", "call", "", "published TFLOP/s", "predicted", "error"], rows)


def as_json(entries: list[Entry], decodes: list[Decode]) -> dict[str, Any]:
    """As schema.json has it."""
    return {
        "measured_on_hardware": False,
        "model_holds": near() == len(PUBLISHED),
        "kernels": [
            {
                "arch": e.image.arch, "family": e.image.family, "dtype": e.image.dtype, "dim": e.image.dim, "entry": e.name,
                "features": e.features, "issued_masked": e.masked,
                "tile": vars(e.tile), "registers": e.registers, "spills": e.spills, "min_blocks_per_sm": e.blocks,
                "tensor": e.tensor, "tensor_ideal": e.tensor_ideal, "issued": e.issued, "seldom": e.seldom,
                "issued_a_score": e.per_score, "issued_a_score_rest": e.per_score_rest, "counts": e.counts,
                "products": vars(e.products) if e.products else None, "warnings": e.warnings, "gpu": e.gpu,
                "cycles": e.iteration.units if e.iteration else None, "iteration": e.iteration.cycles if e.iteration else None,
                "limit": e.iteration.limit if e.iteration else None,
                "of_peak": e.of_peak, "teraflops": e.speeds, "teraflops_capped": e.capped, "emulated": e.emulated,
                "goals": [vars(v) for v in judge(e)],
            }
            for e in entries
        ],
        "decode": [
            {
                "arch": d.entry.image.arch, "dtype": d.entry.image.dtype, "shape": vars(d.shape), "launches": d.kernels,
                "grid": d.grid, "kv_bytes": d.shape.kv_bytes, "read": d.read, "partial": d.partial, "ratio": d.ratio,
                "bytes_in_flight": d.in_flight, "bytes_needed": d.needed, "cycles": d.cycles, "memory_cycles": d.memory_cycles,
                "goals": [vars(v) for v in judge_decode(d)],
            }
            for d in decodes
        ],
        "peers": [
            {"kernel": p.loop.title, "gpu": p.gpu, "sequence": p.sequence, "causal": p.causal, "published": p.teraflops,
             "modelled": p.modelled, "error": p.error} for p in PUBLISHED
        ],
    }  # fmt: skip


def write_json(entries: list[Entry], decodes: list[Decode], path: Path) -> None:
    path.write_text(json.dumps(as_json(entries, decodes), indent=1) + "\n")

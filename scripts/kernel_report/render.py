"""The report as text (Markdown tables), as JSON, and as a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .analysis import Entry
from .goals import judge
from .peers import PUBLISHED


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def loop_row(e: Entry) -> list[str]:
    counts = [str(e.counts.get(name, 0)) for name in ("MUFU", "FFMA", "FMUL", "FMNMX", "LDSM")]
    return [e.label, f"{e.tile.rows}x{e.tile.keys}", str(e.issued), f"{e.tensor} / {e.tensor_ideal:.0f}",
            f"{e.issued / e.tensor:.2f}", f"{e.per_score:.1f}", f"{e.per_score_rest:.1f}", *counts,
            str(e.registers), str(e.spills), str(e.blocks or "?")]  # fmt: skip


def model_row(e: Entry) -> list[str]:
    if e.turn is None:
        return [e.label] + ["rates not known"] + [""] * 10
    units = [f"{e.turn.units[u]:.0f}" for u in ("tensor", "MUFU", "FP32", "ALU", "issue", "shared", "L2")]
    fraction = f"{100 * e.of_peak:.0f} %" if e.of_peak is not None else ""
    return [e.label, str(e.gpu), *units, f"{e.turn.schedule:.0f}" if e.turn.schedule else "", f"{e.turn.cycles:.0f}",
            e.turn.limit, fraction]  # fmt: skip


def text(entries: list[Entry]) -> str:
    parts = [
        "Steady loop of a warp, one turn:\n",
        table(["kernel", "tile", "issued", "tensor / ideal", "issued an mma", "a score", "of it not mma, ldmatrix", "MUFU",
               "FFMA", "FMUL", "FMNMX", "LDSM", "registers", "spills", "blocks an SM"], [loop_row(e) for e in entries]),
        "\nCycles of a sub-core for a turn of all its warps, not yet measured on hardware:\n",
        table(["kernel", "GPU", "tensor", "MUFU", "FP32", "ALU", "issue", "shared", "L2", "schedule", "turn", "limit",
               "of the peak"], [model_row(e) for e in entries]),
    ]  # fmt: skip
    shapes = [[e.label, str(e.gpu), shape, f"{flops:.0f}"] for e in entries for shape, flops in e.speeds.items()]
    if shapes:
        parts += ["\nShapes, modelled, not yet measured on hardware:\n", table(["kernel", "GPU", "shape", "TFLOP/s"], shapes)]
    counted = [
        [e.label, *(f"{e.emulated[name]:.2f}" for name in ("bank_conflict_factor", "sectors_per_request"))]
        for e in entries
        if e.emulated
    ]
    if counted:
        parts += ["\nCounted by the emulator:\n", table(["kernel", "bank conflict factor", "sectors a request"], counted)]
    verdicts = [
        [e.label, v.what, v.goal, f"{v.got:.2f}", "met" if v.met else "**missed**"] for e in entries for v in judge(e)
    ]
    parts += ["\nGoals:\n", table(["kernel", "figure", "goal", "got", "verdict"], verdicts)]
    return "".join(parts)


def peers() -> str:
    """The model beside what was published, and how many figures it gives within 10 %."""
    rows = [
        [p.peer.name, p.gpu, str(p.sequence), "causal" if p.causal else "full", f"{p.teraflops:.0f}", f"{p.modelled:.0f}",
         f"{100 * p.error:+.1f} %"] for p in PUBLISHED
    ]  # fmt: skip
    near = sum(abs(p.error) <= 0.1 for p in PUBLISHED)
    head = ["kernel", "GPU", "S", "mask", "published TFLOP/s", "modelled", "error"]
    return table(head, rows) + f"\n{near} of {len(PUBLISHED)} within 10 %.\n"


def as_json(entries: list[Entry]) -> dict[str, Any]:
    return {
        "measured_on_hardware": False,
        "kernels": [
            {
                "sm": e.image.sm, "family": e.image.family, "dtype": e.image.dtype, "dim": e.image.dim, "entry": e.name,
                "tile": vars(e.tile), "registers": e.registers, "spills": e.spills, "blocks_an_sm": e.blocks,
                "tensor": e.tensor, "tensor_ideal": e.tensor_ideal, "issued": e.issued, "seldom": e.seldom,
                "issued_a_score": e.per_score, "issued_a_score_rest": e.per_score_rest, "counts": e.counts,
                "gpu": e.gpu, "cycles": e.turn.units if e.turn else None, "turn": e.turn.cycles if e.turn else None,
                "schedule": e.turn.schedule if e.turn else None, "limit": e.turn.limit if e.turn else None,
                "of_peak": e.of_peak, "bytes_in_flight": e.in_flight, "bytes_needed": e.needed, "teraflops": e.speeds,
                "emulated": e.emulated, "goals": [vars(v) for v in judge(e)],
            }
            for e in entries
        ],
        "peers": [
            {"kernel": p.peer.name, "gpu": p.gpu, "sequence": p.sequence, "causal": p.causal, "published": p.teraflops,
             "modelled": p.modelled, "error": p.error} for p in PUBLISHED
        ],
    }  # fmt: skip


def write_json(entries: list[Entry], path: Path) -> None:
    path.write_text(json.dumps(as_json(entries), indent=1) + "\n")


def plot(entries: list[Entry], path: Path) -> None:
    """A turn's units side by side, as fractions of the turn, one group a kernel."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fa"  # the same file for the same figures
    from matplotlib import pyplot

    shown = [e for e in entries if e.turn]
    names = ("tensor", "MUFU", "FP32", "ALU", "issue", "shared", "L2")
    figure, axes = pyplot.subplots(figsize=(10, 1 + 0.9 * len(shown)))
    height = 0.8 / len(names)
    for n, name in enumerate(names):
        places = [i + n * height for i in range(len(shown))]
        axes.barh(places, [e.turn.units[name] / e.turn.cycles for e in shown if e.turn], height, label=name)
    axes.set_yticks([i + 0.4 for i in range(len(shown))], [f"{e.label}\n{e.gpu}" for e in shown], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("part of a turn for which the unit is busy (modelled, not yet measured on hardware)")
    axes.legend(ncols=len(names), loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})

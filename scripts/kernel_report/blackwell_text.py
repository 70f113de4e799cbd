"""What the model says of kernels on tensor memory, as tables: FlashAttention-4's published figures, and images of ours."""

from __future__ import annotations

from pathlib import Path

from . import blackwell
from .blackwell import GPUS, HEADS, OTHERS, PUBLISHED, SEQUENCES, Counts, Published
from .images import Image
from .render import table

FAMILY = "tcgen05"
GOAL = 1.02  # of FlashAttention-4's speed, by the same model
UNITS = ("tensor", "MUFU", "FP32", "ALU", "issue", "shared", "TMEM")


def mask(causal: bool) -> str:
    return "causal" if causal else "full"


def held(figures: list[Published]) -> str:
    rows = [
        [p.gpu, str(p.dim) if p.dim == p.dim_v else f"{p.dim}/{p.dim_v}", str(p.sequence), mask(p.causal), f"{p.teraflops:.0f}",
         f"{p.cudnn:.0f}" if p.cudnn else "", f"{p.modelled:.0f}", f"{100 * p.error:+.1f} %"]
        for p in figures
    ]  # fmt: skip
    return table(["GPU", "head dimension", "S", "mask", "FlashAttention-4", "cuDNN 9.27", "modelled", "error"], rows)


def near() -> int:
    return sum(abs(p.error) <= 0.1 for p in PUBLISHED)


def turn_row(of: Counts) -> list[str]:
    turn = of.turn(of.sm)
    units = [f"{turn.units[name]:.0f}" for name in UNITS]
    return [of.name, *(str(n) for n in of.issued.values()), f"{of.a_score:.2f}", *units, f"{turn.cycles:.0f}", turn.limit,
            f"{100 * turn.ideal / turn.cycles:.0f} %"]  # fmt: skip


def turns(found: list[Counts]) -> str:
    head = ["kernel", "softmax", "correction", "products", "load", "a score", *UNITS, "turn", "limit", "of the peak"]
    return table(head, [turn_row(one) for one in found])


def predictions(ours: Counts, gpu: str) -> list[list[str]]:
    result = []
    for causal in (False, True):
        for s in SEQUENCES:
            theirs = blackwell.teraflops(blackwell.loop_of(ours.dim, ours.dim_v, causal, GPUS[gpu].sm), gpu, s, HEADS, causal)
            speed = blackwell.teraflops(ours, gpu, s, HEADS, causal)
            result.append([ours.name, gpu, str(s), mask(causal), f"{speed:.0f}", f"{theirs:.0f}", f"{speed / theirs:.3f}"])
    return result


def ours(paths: list[Path], tools: Path) -> list[Counts]:
    """Of the images of our family among these."""
    images = [image for path in paths if (image := Image.of(path)) and image.family == FAMILY]
    return [
        blackwell.read(image.path, tools, f"sm_{image.arch} {image.dtype} hd{image.dim}", image.dim, image.dim, False)
        for image in images
        if blackwell.has_loop(image.dim)
    ]


def text(paths: list[Path], tools: Path) -> str:
    found = ours(paths, tools)
    parts = [
        held(PUBLISHED), f"\n{near()} of {len(PUBLISHED)} within 10 %.\n\nNot held to:\n\n", held(OTHERS),
        "\nA turn of the block, instructions of a warp by role and cycles of the product warp's sub-core:\n\n",
        turns([*blackwell.kept().values(), *found]),
    ]  # fmt: skip
    if found:
        head = ["kernel", "GPU", "S", "mask", "TFLOP/s", "FlashAttention-4 so", f"times it (goal {GOAL:g})"]
        parts += ["\nPredicted, 2 x 64 heads, not yet measured on hardware:\n\n",
                  table(head, [row for one in found for gpu, board in GPUS.items() if one.sm <= board.sm
                                for row in predictions(one, gpu)])]  # fmt: skip
    return "".join(parts)

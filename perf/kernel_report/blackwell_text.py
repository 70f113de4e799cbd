"""Kernels on tensor memory by the model, as tables: FlashAttention-4's published figures, and images of ours."""

from __future__ import annotations

from pathlib import Path

from . import blackwell, images
from .blackwell import GPUS, HEADS, OTHERS, PUBLISHED, SEQUENCES, Counts, Published
from .goals import OVER_FA4, judge_roles
from .images import Image, Tile
from .render import GOALS, predicted, table, verdict_rows
from .roles import ROWS, features, roles

FAMILY = "tcgen05"
UNITS = ("tensor", "MUFU", "FP32", "ALU", "issue", "shared", "TMEM")


def mask(causal: bool) -> str:
    return "causal" if causal else "full"


def held(figures: list[Published]) -> str:
    rows = [
        [p.gpu, str(p.dim) if p.dim == p.dim_v else f"{p.dim}/{p.dim_v}", str(p.sequence), mask(p.causal), f"{p.teraflops:.0f}",
         f"{p.cudnn:.0f}" if p.cudnn else "", f"{p.modelled:.0f}", f"{100 * p.error:+.1f} %"]
        for p in figures
    ]  # fmt: skip
    return table(["GPU", "head dimension", "S", "mask", "FlashAttention-4", "cuDNN 9.27", "predicted", "error"], rows)


def near() -> int:
    return sum(abs(p.error) <= 0.1 for p in PUBLISHED)


def iteration_row(of: Counts) -> list[str]:
    iteration = of.iteration(of.sm)
    units = [f"{iteration.units[name]:.0f}" for name in UNITS]
    return [of.name, *(str(n) for n in of.issued.values()), f"{of.a_score:.2f}", *units, f"{iteration.cycles:.0f}", iteration.limit,
            f"{100 * iteration.ideal / iteration.cycles:.0f} %"]  # fmt: skip


def iterations(found: list[Counts]) -> str:
    head = ["kernel", "softmax", "correction", "products", "load", "a score", *UNITS, "iteration", "limit", "of the peak"]
    return predicted(head, [iteration_row(one) for one in found])


def predictions(ours: Counts, gpu: str) -> list[list[str]]:
    result = []
    for causal in (False, True):
        for s in SEQUENCES:
            speed = blackwell.teraflops(ours, gpu, s, HEADS, causal)
            theirs_text = ["", ""]
            if blackwell.has_loop(ours.dim, ours.dim_v) and not ours.feature:
                theirs = blackwell.teraflops(blackwell.loop_of(ours.dim, ours.dim_v, causal, GPUS[gpu].sm), gpu, s, HEADS, causal)
                theirs_text = [f"{theirs:.0f}", f"{speed / theirs:.3f}"]
            result.append([ours.name, gpu, str(s), mask(causal), f"{speed:.0f}", *theirs_text])
    return result


def summary(found: list[Counts], gpu: str) -> str:
    """Predictions a kernel and mask a row: with FlashAttention-4's speed by the model where its loop is kept."""
    rows = []
    for one in found:
        of_one = predictions(one, gpu)
        for causal in (False, True):
            mine = [row for row in of_one if row[3] == mask(causal)]
            times = [row[6] for row in mine if row[6]]
            judged = [v.met for v in judge_roles(one) if mask(causal) in v.what]
            verdict = f"{OVER_FA4:g}, {'reached' if all(judged) else '**missed**'}" if judged else ""
            rows.append([one.name, mask(causal), *(row[4] for row in mine), ", ".join(times), verdict])
    return predicted(["kernel", "mask", *map(str, SEQUENCES), "times FlashAttention-4", "goal"], rows)


def ours(paths: list[Path], tools: Path, tiles: dict[tuple[str, int, int, str], Tile]) -> list[Counts]:
    """Counts of the images of our family among these: narrow values' next to plain, and score_mod with each of its features."""
    result = []
    for image in (image for path in paths if (image := Image.of(path)) and image.family == FAMILY):
        for function in images.functions(image.path, tools):
            tile = tiles.get((FAMILY, image.sm, image.dim, function.name))
            if tile is None:
                continue
            dim_v, queries = images.columns_of_values(image.dim, function.name), tile.rows // ROWS
            name = f"sm_{image.arch} {image.dtype} hd{image.dim}" + (f"/{dim_v}" if dim_v < image.dim else "")
            for feature in features(tile.keys) if function.name == "fa_forward_score_mod" else [""]:
                found = roles(function, image.dim, dim_v, tile.keys, False, queries, feature)
                full = f"{name}, {feature}" if feature else name
                result.append(blackwell.counts(full, image.dim, dim_v, found, tile.keys, queries, feature, image.dtype))
    return sorted(result, key=lambda one: (one.sm, one.dim, one.dim_v, one.name))


def text(paths: list[Path], tools: Path, cxx: str) -> str:
    found = ours(paths, tools, images.tiles(cxx)) if paths else []
    parts = [
        held(PUBLISHED), f"\n{near()} of {len(PUBLISHED)} within 10 %.\n\nNot held to:\n\n", held(OTHERS),
        "\nAn iteration of the block, instructions of a warp by role and cycles of the product warp's sub-core:\n\n",
        iterations([*blackwell.kept().values(), *found]),
    ]  # fmt: skip
    if found:
        head = ["kernel", "GPU", "S", "mask", "TFLOP/s", "FlashAttention-4 so", f"times it (goal {OVER_FA4:g})"]
        parts += ["\nPredicted, 2 x 64 heads, not yet measured on hardware:\n\n",
                  predicted(head, [row for one in found for gpu, board in GPUS.items() if one.sm <= board.sm
                                for row in predictions(one, gpu)])]  # fmt: skip
        if built := [one for one in found if one.sm == 100]:
            plain = [one for one in built if not one.feature]
            parts += ["\nThe same in short, on a B200:\n\n", summary(plain, "B200"), "\nGoals:\n\n",
                      table(GOALS, verdict_rows((one.name, judge_roles(one)) for one in plain))]  # fmt: skip
    return "".join(parts)

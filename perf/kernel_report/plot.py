"""The report as a figure: how much of the tensor peak each kernel reaches, next to its goal, and the units that its iterations keep
busy."""

from __future__ import annotations

from pathlib import Path

from .analysis import Entry
from .goals import PEAK
from .render import UNITS


def plot(entries: list[Entry], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": "fa", "svg.fonttype": "none"}  # the same file for the same figures, and a small one
    from matplotlib import pyplot

    shown = [(e, e.iteration, e.of_peak) for e in entries if e.iteration and e.of_peak is not None]
    figure, (left, right) = pyplot.subplots(1, 2, sharey=True, figsize=(11, 1.2 + 0.75 * len(shown)))
    for n, (entry, iteration, of_peak) in enumerate(shown):
        left.barh(n, of_peak, 0.6, color="tab:blue")
        left.text(0.01, n, f"{100 * of_peak:.0f} %, {iteration.limit}", va="center", color="white", fontsize=8)
        if entry.image.dim == 128 and entry.image.sm in PEAK:
            left.plot([PEAK[entry.image.sm]] * 2, [n - 0.4, n + 0.4], color="tab:red", linewidth=2)
    height = 0.8 / len(UNITS)
    for m, unit in enumerate(UNITS):
        places = [n - 0.4 + (m + 0.5) * height for n in range(len(shown))]
        right.barh(places, [iteration.units[unit] / iteration.cycles for _, iteration, _ in shown], height, label=unit)
    left.set_yticks(range(len(shown)), [f"{e.label}\n{e.gpu}" for e, _, _ in shown], fontsize=7)
    left.invert_yaxis()
    left.set_xlim(0, 1)
    right.set_xlim(0, 1)
    left.set_xlabel("of the tensor peak, and the limiting unit; red: goal")
    right.set_xlabel("part of an iteration for which a unit is busy")
    right.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8, frameon=False)
    left.set_title("predicted, not yet measured on hardware", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)

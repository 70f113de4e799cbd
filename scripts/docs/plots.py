"""Bars of measured speeds, as SVG in the colors of the page: plot("bench/results/...") is a figure of one file of results, with the
machine, the date or the versions, and the command that the file has. Nothing is drawn that was not measured."""

import html
import json
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
WIDTH, BAR, GAP = 520, 11, 2  # of a drawing, of a bar, between bars
LABEL, ROOM = 16, 34  # the height of a row's label, the width of the number behind a bar
FILLS = ['fill="var(--md-primary-fg-color)"', *(f'fill="currentColor" opacity="{opacity}"' for opacity in (0.5, 0.32, 0.18))]
NAMES = {"libfa": "libfa", "cudnn": "cuDNN", "flash": "FlashAttention-2"}


def session(data):
    """Prefill of a GPU session: TFLOP/s of libfa and of torch's backends."""
    phase = data["phases"]["goals"]
    rows = []
    for shape in phase["values"]["shapes"]:
        if shape["Sq"] > 16 and not shape["gradients"]:
            measured = {
                NAMES[name]: run["TFLOPs"] for name, run in shape["contenders"].items() if name in NAMES and "TFLOPs" in run
            }
            rows.append((shape["shape"].replace(" bf16", ""), measured))
    values = phase["values"]
    versions = f"torch {values['torch']}, cuDNN {values['cudnn']}, driver {data['versions']['driver_version']}"
    return rows, "TFLOP/s, bf16", [values["gpu"], versions, phase["time"][:10], phase["items"][0]["command"]]


def gradients(data):
    """The gradients of a GPU: TFLOP/s of the newest version that was measured, and of torch's backends."""
    landed = [run for run in data["results"] if run["version"] == "landed"]
    rows = [(run["shape"], {NAMES[name]: speed for name, speed in run["TFLOPs"].items()}) for run in landed]
    versions = f"torch {data['torch']}, cuDNN {data['cudnn']}, driver {data['driver']}"
    return rows, "TFLOP/s of five products, bf16, sums in any order", [data["gpu"], versions, data["command"]]


def figures(data):
    """Figures of fa_bench: percent of the machine's peak, median of the repetitions."""
    medians = [run for run in data["benchmarks"] if run.get("aggregate_name") == "median" and "of_peak" in run]
    rows = {}
    for run in medians:
        direction, dtype, mask, rows_of_q, dim, *_ = run["run_name"].split("/")
        rows.setdefault(f"{direction}, {dtype}, {mask}", {})[f"{rows_of_q[2:]} x {dim[2:]}"] = run["of_peak"]
    context = data["context"]
    return (
        list(rows.items()),
        "percent of the peak of multiply-adds, rows x head dimension, one thread",
        [context["cpu"], context["isa"], context["date"][:10], "fa_bench"],
    )


def read(path):
    """The rows of a file, each a label and numbers by name, the unit, and the circumstances."""
    data = json.loads((ROOT / path).read_text())
    kind = session if "phases" in data else gradients if "results" in data else figures
    return kind(data)


def plot(path):
    rows, unit, circumstances = read(path)
    names = list(dict.fromkeys(name for _, numbers in rows for name in numbers))
    largest = max(number for _, numbers in rows for number in numbers.values())
    scale = (WIDTH - ROOM) / largest
    parts, y = [], 12
    if len(names) > 1:
        for n, name in enumerate(names):
            x = n * 130
            parts.append(
                f'<rect x="{x}" y="2" width="11" height="11" {FILLS[n]}/><text x="{x + 16}" y="12">{html.escape(name)}</text>'
            )
        y += 18
    for label, numbers in rows:
        parts.append(f'<text x="0" y="{y}" class="fa-label">{html.escape(label)}</text>')
        y += 5
        for n, name in enumerate(names):
            if name not in numbers:
                continue
            width = round(numbers[name] * scale, 1)
            parts.append(f'<rect x="0" y="{y}" width="{width}" height="{BAR}" {FILLS[n]}/>')
            parts.append(f'<text x="{width + 4}" y="{y + BAR - 2}">{numbers[name]:.0f}</text>')
            y += BAR + GAP
        y += LABEL
    drawing = f'<svg viewBox="0 0 {WIDTH} {y - LABEL + GAP}" role="img" aria-label="{html.escape(unit)}">{"".join(parts)}</svg>'
    caption = f"{unit}: {', '.join(circumstances[:-1])}, <code>{html.escape(circumstances[-1])}</code>"
    return f'<figure class="fa-plot" data-search-exclude>{drawing}<figcaption>{caption} ({path})</figcaption></figure>'

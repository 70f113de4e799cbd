#!/usr/bin/env python3
"""Turns fa_bench's JSON into a table of figure, goal, measured and verdict.

    fa_bench --benchmark_out=result.json && bench/report.py result.json [--missed]
    bench/report.py --shrink result.json     rewrites it with the fields of tables, to be kept in bench/results
"""
import argparse
import json
import sys
from pathlib import Path

# Counter of a figure: its unit, and whether less is better. The first that a line has is its figure.
MEASURES = {
    "of_twice_one": ("% of twice one thread", False),
    "of_plain": ("% of plain, per attended pair", False),
    "points_below_128": ("points below D = 128", True),
    "of_read": ("% of pure read", False),
    "of_copy": ("% of memcpy", False),
    "of_one_token": ("% of one token's time", True),
    "nanoseconds": ("ns a call", True),
    "of_peak": ("% of peak", False),
}


def medians(runs):
    """The representative line of each benchmark: the median of its repetitions, or its only run. Errors too."""
    lines = {}
    for run in runs:
        name = run["run_name"]
        if run.get("error_occurred") or run.get("skipped"):
            lines[name] = run
        elif run.get("aggregate_name") == "median" or (run["run_type"] == "iteration" and run.get("repetitions", 1) <= 1):
            lines.setdefault(name, run)
    return lines


def verdict(measured, goal, less_is_better):
    if goal == 0:
        return "reported"
    return "reached" if (measured < goal if less_is_better else measured >= goal) else "**missed**"


def table(lines, only_missed=False):
    rows = ["| figure | goal | measured | verdict | rate |", "|---|---|---|---|---|"]
    missed = 0
    for name, run in lines.items():
        if name.startswith("ceiling/"):
            continue
        if run.get("error_message"):
            rows.append(f"| {name} | | {run['error_message']} | **not measured** | |")
            missed += 1
            continue
        measure = next(counter for counter in MEASURES if counter in run)
        unit, less_is_better = MEASURES[measure]
        goal, said = run["goal"], verdict(run[measure], run["goal"], less_is_better)
        missed += said == "**missed**"
        if only_missed and said != "**missed**":
            continue
        bound = "" if goal == 0 else f"{'<' if less_is_better else '>='} {goal:g}"
        rate = f"{run['GFLOPs']:.1f} GFLOP/s" if "GFLOPs" in run else f"{run['GBs']:.1f} GB/s" if "GBs" in run else ""
        rows.append(f"| {name} | {bound} | {run[measure]:.1f} {unit} | {said} | {rate} |")
    return rows, missed


def ceilings(lines):
    rows = ["| ceiling | measured |", "|---|---|"]
    for name, run in lines.items():
        if name.startswith("ceiling/") and "error_message" not in run:
            value = f"{run['GFLOPs']:.1f} GFLOP/s" if "GFLOPs" in run else f"{run['GBs']:.1f} GB/s"
            rows.append(f"| {name.removeprefix('ceiling/')} {run.get('label', '')} | {value} |")
    return rows


COUNTERS = ["GFLOPs", "GBs", "goal", *MEASURES]
KEPT = ["run_name", "run_type", "aggregate_name", "label", "error_occurred", "error_message", "skipped", *COUNTERS]
CONTEXT = ["date", "num_cpus", "load_avg", "cpu", "isa", "libfa", "native_bf16"]


def shrink(path):
    """Leaves a line a median or coefficient of variation, and of numbers six digits."""
    result = json.loads(path.read_text())
    context = {key: result["context"][key] for key in CONTEXT if key in result["context"]}
    lines = []
    for run in result["benchmarks"]:
        if run.get("aggregate_name", "median") not in ("median", "cv"):
            continue
        kept = {key: run[key] for key in KEPT if key in run}
        if run.get("aggregate_name") == "cv":
            kept.pop("goal", None)
        lines.append(json.dumps({key: float(f"{value:.6g}") if key in COUNTERS else value for key, value in kept.items()}))
    path.write_text('{"context": %s,\n"benchmarks": [\n%s\n]}\n' % (json.dumps(context), ",\n".join(lines)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", nargs="+", help="files of fa_bench --benchmark_out; a later file's figures win")
    parser.add_argument("--missed", action="store_true", help="only the figures below their goal")
    parser.add_argument("--shrink", action="store_true", help="rewrite the files with the fields of tables, and print no table")
    options = parser.parse_args()
    if options.shrink:
        for path in options.json:
            shrink(Path(path))
        return 0
    lines = {}
    for path in options.json:
        result = json.loads(Path(path).read_text())
        lines.update(medians(result["benchmarks"]))
    context = result["context"]
    print(f"{context.get('cpu')}, {context.get('isa')}, native bf16: {context.get('native_bf16')}; {context.get('date')}\n")
    print("\n".join(ceilings(lines)), "\n")
    rows, missed = table(lines, options.missed)
    print("\n".join(rows))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""ncu on one kernel at one shape: its metrics by name, with their units.

    scripts/profile.sh KERNEL SHAPE [--dtype bf16] [--json FILE]
"""
import argparse
import csv
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import tools
from gpu.tools import NOT_AVAILABLE, PASSED, ROOT

SECTIONS = ["SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "LaunchStats", "Occupancy",
            "SchedulerStats", "WarpStateStats", "InstructionStats"]

# The columns of the printed table.
SHOWN = ["gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed",
         "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
         "dram__throughput.avg.pct_of_peak_sustained_elapsed", "sm__inst_issued.avg.pct_of_peak_sustained_active",
         "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread",
         "launch__occupancy_limit_registers", "launch__occupancy_limit_shared_mem"]


def why_not():
    """None where ncu runs; else why it cannot. Whether it may read the counters shows with the first kernel."""
    return tools.probe("ncu", "--version")


# Attributes of the device, and aggregates next to a counter's average or sum.
LEFT_OUT = re.compile(r"^device__attribute|\.(min|max)(\.|$)|\.sum\.pct_of")


def metrics_of(text):
    """The values of ncu's raw page as CSV: a line of names, a line of units, a line for the kernel."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.reader(lines))
    if len(rows) < 3:
        return {}
    return {name: {"value": value, "unit": unit} for name, unit, value in zip(*rows[:3]) if not LEFT_OUT.search(name)}


def profile(pack, kernel, shape, dtype, seconds):
    """The second launch of a kernel in `fa bench`, as an item. Clocks are left as they are."""
    sections = [argument for section in SECTIONS for argument in ("--section", section)]
    outcome = tools.run(
        ["ncu", "--clock-control", "none", "--kernel-name", "regex:^fa_forward", "--launch-skip", 1, "--launch-count", 1,
         "--kill", "yes", "--csv", "--page", "raw", *sections, pack.program("fa"), "bench", "--kernel", kernel, "--shape",
         shape, "--dtype", dtype, "--rounds", 1, "--time", 0], seconds, pack.environment())
    metrics = metrics_of(outcome.output)
    item = outcome.item(f"{kernel} {shape} {dtype}", metrics=metrics)
    if not metrics and not outcome.timed_out:
        item.update(status=NOT_AVAILABLE, reason=f"ncu read no metrics: {outcome.tail(3)}")
    elif metrics:
        item["status"] = PASSED  # the program was ended on purpose
    return item


def main():
    parser = argparse.ArgumentParser(prog="scripts/profile.sh", description=__doc__.splitlines()[0])
    parser.add_argument("kernel", help="as `fa info` names it: cuda.sm_90a.mma")
    parser.add_argument("shape", help="B,Hq,Hkv,Sq,Sk,D")
    parser.add_argument("--dtype", choices=["f32", "f16", "bf16"], default="bf16")
    parser.add_argument("--pack", default=ROOT / "build" / "session", help="the output of scripts/gpu-session.sh prepare")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--json", type=Path, help="write all metrics to this file")
    options = parser.parse_args()
    pack, why = tools.Pack(options.pack), why_not()
    item = {"status": NOT_AVAILABLE, "reason": why}
    if not why:
        item = profile(pack, options.kernel, options.shape, options.dtype, options.seconds)
    if options.json:
        tools.write_json(options.json, {**tools.provenance(pack), **item})
    for name in SHOWN:
        if name in item.get("metrics", {}):
            print(f"{name:<70} {item['metrics'][name]['value']:>14} {item['metrics'][name]['unit']}")
    if item["status"] != PASSED:
        print(f"{item['status']}: {item.get('reason') or item.get('output')}", file=sys.stderr)
    sys.exit({PASSED: 0, NOT_AVAILABLE: 77}.get(item["status"], 1))


if __name__ == "__main__":
    main()

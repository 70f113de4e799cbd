"""The family for warpgroups over every pair of what its calls differ in: head dimension, type, mask, lengths, pages, splits,
heads, features and values that are not finite. Under all checks of the emulator, and under the schedules of seeds.

pairs.py PROGRAM EMULATOR KERNELS [--seeds N] [--sample N] [--jobs N] [--out FILE]
PROGRAM: fa_test_engine; EMULATOR: the folder of libcuda.so.1; KERNELS: the folder of the images; --sample: N of the
calls; --out: a table of what ran
"""

import argparse
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KERNEL = "cuda.sm_90a.wgmma"
FACTORS = {
    "columns": ("64", "96", "128", "192", "256", "40/64", "192/128"),
    "type": ("bf16", "f16"),
    "mask": ("causal", "none", "window"),
    "lengths": ("packed", "same", "used"),
    "page": ("16", "none", "64", "128"),
    "splits": ("1", "3"),
    "heads": ("4/1", "2/2", "6/2"),
    "score": ("scaled", "softcap", "alibi"),
    "values": ("finite", "special"),
}
NAMES = tuple(FACTORS)


def allowed(row):
    """Tiles between powers of two have neither softcaps nor ALiBi, 256 columns no ALiBi."""
    columns, score = row.get("columns", "")[:3], row.get("score", "scaled")
    return not (columns in ("96", "192") and score != "scaled") and (columns, score) != ("256", "alibi")


def pairs_of(row):
    return {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(NAMES, 2)}


def covering():
    """Few rows that have every allowed pair of values: each new one has as many of those that are left as can be found by
    changing one factor after the other."""
    left = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(NAMES, 2)
        for x, y in itertools.product(FACTORS[a], FACTORS[b])
        if allowed({a: x, b: y})
    }
    rows = []
    while left:
        (a, x), (b, y) = min(left)
        row = {name: FACTORS[name][len(rows) % len(FACTORS[name])] for name in NAMES} | {a: x, b: y}
        if not allowed(row):
            row["score" if a != "score" and b != "score" else "columns"] = "scaled" if "score" not in (a, b) else "64"
        for name in 2 * [name for name in NAMES if name not in (a, b)]:
            options = [row | {name: value} for value in FACTORS[name]]
            row = max((each for each in options if allowed(each)), key=lambda each: len(pairs_of(each) & left))
        left -= pairs_of(row)
        rows.append(row)
    return rows


def case_of(row, number):
    """A few tiles of a few sequences: FA_CASE's words."""
    columns, _, of_values = row["columns"].partition("/")
    heads, _, heads_kv = row["heads"].partition("/")
    wide = int(columns) >= 192  # which take the emulator long
    words = [f"b={1 if wide else 2}", f"sq={66 if wide else 70 + number % 5}", f"sk={270 + number}", f"hq={heads}", f"hkv={heads_kv}"]
    words += [f"d={columns}", f"q={row['type']}", f"splits={row['splits']}", "workspace=1", f"seed={number + 1}", "sinks=h"]
    if of_values:
        words.append(f"dv={of_values}")
    if row["mask"] == "causal":
        words.append("mask=causal")
    if row["mask"] == "window":
        words += ["mask=causal", "window_left=140"]
    paged = row["page"] != "none"
    if paged:
        words.append(f"page={row['page']}")
    if row["lengths"] == "packed":
        words += ["cu_q=1", "used_k=1" if paged else "cu_k=1"]
    if row["lengths"] == "used":
        words += ["used_q=1", "used_k=1", "offset=1"] + ([] if paged else ["leftpad=1"])
    words += {"scaled": [], "softcap": ["softcap=4"], "alibi": ["alibi=h"]}[row["score"]]
    if row["values"] == "special":
        words.append("special=1")
    return " ".join(words)


def run(options, case, seed):
    """What went wrong; "" when nothing did."""
    environment = os.environ | {"FA_CASE": case, "FA_FORCE_KERNEL": KERNEL, "FA_KERNEL_PATH": str(options.kernels)}
    environment |= {"LD_LIBRARY_PATH": str(options.emulator), "FA_EMU_DEVICE": "sm_90a:sms=2", "TEST_EMULATED": "1"}
    environment |= {"FA_EMU_CHECK": "2", "FA_EMU_FAIL_ON": "formal", "FA_EMU_SEED": str(seed)}
    done = subprocess.run([options.program], env=environment, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "emulator", "kernels"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.program = options.program.resolve()
    cases = [case_of(row, number) for number, row in enumerate(covering())]
    if options.sample:
        cases = cases[:: len(cases) // options.sample][: options.sample]
    runs = [(case, seed) for case in cases for seed in range(options.seeds)]
    with ThreadPoolExecutor(options.jobs) as pool:
        failures = list(pool.map(lambda each: run(options, *each), runs))
    for (case, seed), failure in zip(runs, failures):
        if failure:
            print(f"seed {seed}: FA_CASE=\"{case}\"\n{failure}")
    failed = sum(map(bool, failures))
    print(f"{len(cases)} calls under {options.seeds} schedules each: {len(runs) - failed} of {len(runs)} right")
    if options.out:
        lines = ["# Every pair of what calls of `kernels/wgmma` differ in", ""]
        lines += [f"What `pairs.py` ran, under all checks of the emulator and {options.seeds} schedules each:", ""]
        lines += ["| call | schedules that are right |", "|---|---|"]
        for case in cases:
            right = sum(not failure for (other, _), failure in zip(runs, failures) if other == case)
            lines.append(f"| `{case}` | {right} of {options.seeds} |")
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Calls over every pair of factors, under all checks of the emulator and under the schedules of seeds: those of the
families for warpgroups and for tensor memory (head dimension, type, mask, lengths, pages, splits, heads, features, values
that are not finite), of the backward pass, or of gradients in one loop.

pairs.py PROGRAM EMULATOR KERNELS [--plan NAME] [--archs LIST] [--seeds N] [--sample N] [--jobs N] [--out FILE]
PROGRAM: fa_test_engine; EMULATOR: the folder of libcuda.so.1; KERNELS: the folder of the images; --plan: wgmma, tcgen05,
backward or fixed_order; --archs: those with images, with commas; --sample: N of the calls; --out: a table of the calls that ran
"""

import argparse
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pairs_backward
import pairs_tcgen05
import pairs_fixed_order
import pairs_wgmma

PLANS = {"wgmma": pairs_wgmma, "tcgen05": pairs_tcgen05, "backward": pairs_backward, "fixed_order": pairs_fixed_order}


def pairs_of(row):
    return {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(row, 2)}


def covering(plan):
    """Few rows that have every allowed pair of values: each new one has as many of those that are left as can be found by
    changing one factor after the other."""
    factors, names = plan.FACTORS, tuple(plan.FACTORS)
    left = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        for x, y in itertools.product(factors[a], factors[b])
        if plan.allowed({a: x, b: y})
    }
    rows = []
    while left:
        (a, x), (b, y) = min(left)
        row = {name: factors[name][len(rows) % len(factors[name])] for name in names} | {a: x, b: y}
        if not plan.allowed(row):
            row |= plan.mended(row, (a, b))
        for name in 2 * [name for name in names if name not in (a, b)]:
            options = [row | {name: value} for value in factors[name]]
            row = max((each for each in options if plan.allowed(each)), key=lambda each: len(pairs_of(each) & left))
        left -= pairs_of(row)
        rows.append(row)
    return rows


def run(options, case, seed):
    """The error; "" where there is none. case: the device, its kernel, FA_CASE's words, and the words that the library must log of
    the call."""
    device, kernel, words, *said = case
    environment = os.environ | {"FA_CASE": words, "FA_FORCE_KERNEL": kernel, "FA_KERNEL_PATH": str(options.kernels)}
    environment |= {"LD_LIBRARY_PATH": str(options.emulator), "FA_EMU_DEVICE": device if ":" in device else f"{device}:sms=2", "TEST_EMULATED": "1"}
    environment |= {"FA_EMU_CHECK": "2", "FA_EMU_FAIL_ON": "formal", "FA_EMU_SEED": str(seed)}
    environment |= {"FA_VERBOSE": "dispatch"} if said else {}
    done = subprocess.run([options.program], env=environment, capture_output=True, text=True)
    text = done.stdout + done.stderr
    return "" if done.returncode == 0 and all(line in text for line in said) else f"expected: {said}\n{text}"


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "emulator", "kernels"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--plan", choices=PLANS, default="wgmma")
    parser.add_argument("--archs", type=lambda text: text.split(","))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.program = options.program.resolve()
    plan = PLANS[options.plan]
    if options.archs:
        plan.FACTORS["arch"] = tuple(each for each in plan.FACTORS["arch"] if each in options.archs)
    cases = [plan.case_of(row, number) for number, row in enumerate(covering(plan))]
    if options.sample:
        cases = cases[:: len(cases) // options.sample][: options.sample]
    cases = plan.MORE[: options.sample // 2 if options.sample else None] + cases
    runs = [(case, seed) for case in cases for seed in range(options.seeds)]
    with ThreadPoolExecutor(options.jobs) as pool:
        failures = list(pool.map(lambda each: run(options, *each), runs))
    for (case, seed), failure in zip(runs, failures):
        if failure:
            device, kernel, words, *_ = case
            print(f"seed {seed}, {device}, {kernel}: FA_CASE=\"{words}\"\n{failure}")
    failed = sum(map(bool, failures))
    print(f"{len(cases)} calls under {options.seeds} schedules each: {len(runs) - failed} of {len(runs)} right")
    if options.out:
        lines = [f"# Every pair of factors of {plan.TITLE}", ""]
        lines += [f"The calls that `pairs.py` ran, under all checks of the emulator and {options.seeds} schedules each:", ""]
        lines += ["| kernel | call | schedules that are right |", "|---|---|---|"]
        for case in cases:
            right = sum(not failure for (other, _), failure in zip(runs, failures) if other == case)
            lines.append(f"| `{case[1]}` | `{case[2]}` | {right} of {options.seeds} |")
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs third-party kernels on the emulator: with and without checks, under several seeds. See README.md."""

import argparse
import os
import pathlib
import re
import sys

import compiled
import emulated
import mutants
import preloaded
import programs

TEXT = """# Third-party kernels on the emulator

Written by `run.py --report` ([README.md](README.md)). Each program runs without checks, then with them under the
seeds {seeds}.

- *right*: how many of these runs pass the program's own verification;
- *findings*: reports of the checks that nobody has explained;
- *explained*: reports that are known not to be bugs (`KNOWN` in [programs.py](programs.py));
- *speed*, *checked*: millions of thread instructions per second of the launches' wall-clock time, on one thread, without
  and with checks.

Launches are as small as verification allows, a few milliseconds or less. Much of that time goes into starting blocks and
into executing each instruction for the first time; [../README.md](../README.md) has the speed of long launches.

{good} of {runs} programs are right and have no unexplained finding.

{programs}

## Faults planted into them

{caught} of {planted} show where they must, under each seed.

{faults}
"""


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulator", type=pathlib.Path, required=True, help="the folder of libcuda.so.1")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/third_party_kernels"), help="where compiled kernels go")
    parser.add_argument(
        "--nvcc",
        type=pathlib.Path,
        default=os.environ.get("NVCC") or None,
        help="for CUB, thrust and the checkouts; $NVCC by default",
    )
    parser.add_argument(
        "--checkouts",
        type=pathlib.Path,
        default=os.environ.get("FA_THIRD_PARTY") or None,
        metavar="FOLDER",
        help="with cutlass/, flash-attention/ and fa4/; $FA_THIRD_PARTY by default",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="REGEX",
        help="programs whose name, such as triton.softmax.sm_75, matches; of mutants, 'NAME: FAULT'",
    )
    parser.add_argument("--seeds", default="0,1,5", help="the checked runs' seeds (%(default)s)")
    parser.add_argument("--mutants", action="store_true", help="run programs with planted faults, each of which must show")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="run both, and write both tables, as Markdown")
    parser.add_argument("--build", action="store_true", help="compile the programs, and run none")
    parser.add_argument("--list", action="store_true", help="name the programs, and run none")
    options = parser.parse_args()
    if not (options.emulator / "libcuda.so.1").exists():
        parser.error(f"{options.emulator} has no libcuda.so.1: --emulator takes the folder that the emulator was built into")
    if options.nvcc and not options.nvcc.exists():
        print(f"there is no {options.nvcc}: nothing in CUDA C++ is compiled")
        options.nvcc = None
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    options.emulator, options.work = options.emulator.resolve(), options.work.resolve()
    return options


HEAD = ("program", "device", "loads", "right", "findings", "explained", "speed", "checked")


def row_of(program, seeds):
    """Runs a program unchecked, then checked under each seed: its line of the table, and the error."""
    program.prepare()
    environment = {**dict(program.environment), "FA_EMU_THREADS": "1"}
    plain = emulated.run(program.device, program.command, check=0, environment=environment)
    checked = [
        emulated.run(program.device, program.command, check=1, seed=seed, environment=environment) for seed in seeds
    ]
    wrong = []
    for when, run in zip(("without checks", *(f"seed {seed}" for seed in seeds)), (plain, *checked)):
        wrong += [f"{when}: {run.why}"] * (not run.right)
        wrong += [f"{when}: it launched no kernel"] * (run.right and not run.launches)
    findings = [finding for run in checked for finding in run.findings]
    unexplained = program.unexplained(findings)
    wrong += sorted({f"finding ({one['class']}): {one['message']} [PTX line {one['ptx_line']}] {one['ptx']}" for one in unexplained})
    right = sum(run.right and run.launches > 0 for run in (plain, *checked))
    row = (
        program.name,
        program.device,
        "yes" if plain.launches else "no",
        f"{right} of {1 + len(checked)}",
        str(len(unexplained)),
        str(len(findings) - len(unexplained)),
        f"{plain.speed:.0f}",
        f"{sum(run.instructions for run in checked) / max(1e-9, sum(run.seconds for run in checked)) / 1e6:.0f}",
    )
    return row, wrong


def run_all(chosen, seeds):
    """Runs programs: lines of the table, and how many are right and have no unexplained finding."""
    rows, good = [], 0
    for program in chosen:
        row, wrong = row_of(program, seeds)
        rows.append(row)
        good += not wrong
        print("  ".join(row), flush=True)
        for line in wrong:
            print("   ", line, flush=True)
    print(f"{good} of {len(rows)} programs are right and have no unexplained finding")
    return rows, good


def table(head, rows):
    """As Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def main():
    options = arguments()
    everything = [
        *programs.all_programs(options.work, options.emulator),
        *compiled.all_compiled(options.work, options.nvcc, options.emulator, options.checkouts),
    ]
    chosen = [one for one in everything if options.mutants or re.search(options.only, one.title)]
    if options.list:
        print("\n".join(one.title for one in chosen))
        return
    emulated.use(options.emulator)
    preloaded.preload({one.name.split(".")[0] for one in chosen})
    if options.build:
        for program in chosen:
            program.prepare()
            print(program.title, flush=True)
        return
    rows, good, faults, caught = [], 0, [], 0
    if not options.mutants:
        rows, good = run_all(chosen, options.seeds)
    if options.mutants or options.report:
        faults, caught = mutants.run(options.only, everything, options.seeds)
    if options.report:
        options.report.write_text(
            TEXT.format(
                programs=table(HEAD, rows),
                good=good,
                runs=len(rows),
                faults=table(mutants.HEAD, faults),
                caught=caught,
                planted=len(faults),
                seeds=", ".join(map(str, options.seeds)),
            )
        )
    if not rows and not faults:
        print(
            f"nothing's name matches {options.only!r}: run.py --list names the programs"
            + ("" if options.nvcc else ", of which those in CUDA C++ need --nvcc")
        )
        sys.exit(1 if options.nvcc or os.environ.get("CI") == "true" else 77)
    sys.exit(0 if good == len(rows) and caught == len(faults) else 1)


if __name__ == "__main__":
    main()

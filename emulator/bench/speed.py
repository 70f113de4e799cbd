#!/usr/bin/env python3
"""Thread-instructions a second of a program's kernels on emulated GPUs, on one core; of several builds, alternately.

    bench/speed.py --library build/emulator --device sm_80 -- program arguments...
    bench/speed.py --library before --library after --pairs 7 --check -- program arguments...

Each round runs the program once with each library, so that other work on the machine affects all of them. The measure
is the processor time of the whole process; medians are printed, and of the ratios to the first library.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile


def environment(library, options):
    result = dict(os.environ, LD_LIBRARY_PATH=library, FA_EMU_THREADS="1", FA_EMU_QUIET="1", FA_EMU_DEVICE=options.device)
    for name in ("FA_EMU_CHECK", "FA_EMU_REPORT", "FA_EMU_JSON"):
        result.pop(name, None)
    if options.check:
        result["FA_EMU_CHECK"] = "1"
    return result


def run(command, variables, core):
    """Seconds of processor time, and the program's output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"speed.py: {' '.join(command)} ended with {done.returncode}, expected 0")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def instructions(command, library, options):
    """Thread-instructions of one run."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as lines:
        run(command, dict(environment(library, options), FA_EMU_JSON=lines.name), options.core)
        return sum(json.loads(line).get("thread_instructions", 0) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", required=True, help="folder of a libcuda.so.1; may be repeated")
    parser.add_argument("--device", default="sm_80", help="as FA_EMU_DEVICE names it (sm_80)")
    parser.add_argument("--check", action="store_true", help="with checks")
    parser.add_argument("--pairs", type=int, default=5, help="rounds over all libraries (5)")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to run on (the last)")
    parser.add_argument("--same", action="store_true", help="fail where the program does not print the same every time")
    parser.add_argument("command", nargs="+", metavar="program", help="and its arguments, behind --")
    options = parser.parse_args()
    count = instructions(options.command, options.library[0], options)
    if count == 0:
        sys.exit("speed.py: the program has launched no kernel; does it load libcuda.so.1 by its name?")
    seconds = {library: [] for library in options.library}
    outputs = set()
    for _ in range(options.pairs):
        for library in options.library:
            spent, output = run(options.command, environment(library, options), options.core)
            seconds[library].append(spent)
            outputs.add(output)
    for library, spent in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(seconds[options.library[0]], spent))
        median = statistics.median(spent)
        print(f"{library}: {median:.3f} s, {count / median / 1e6:.0f} M/s, {ratio:.2f} times the first")
    if options.same and len(outputs) > 1:
        sys.exit("speed.py: the program printed different things with different libraries")


if __name__ == "__main__":
    main()

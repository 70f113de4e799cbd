#!/usr/bin/env python3
"""Thread-instructions of whole test suites: adds up the files of FA_EMU_TOTALS, as a Markdown table.

    FA_EMU_TOTALS=/tmp/totals.json ctest --test-dir build -L emulated
    bench/totals.py /tmp/totals.json

A row is a suite, the one with the most instructions first. A process that launched nothing, or ended without exit handlers
(a signal, _exit), is not in the file. Processor time is that of whole processes, which prepare inputs and compute
references as well.
"""
import argparse
import json
import os
import re
import sys


def suite_of(command):
    """The program's name (of a script, the script's), and the suite that GoogleTest's filter begins with."""
    words = [word for word in command.split() if not word.startswith("-")]
    name = os.path.basename(words[0]) if words else "?"
    if name.startswith("python") and len(words) > 1:
        name = os.path.basename(words[1])
    chosen = re.search(r"--gtest_filter=(?:\*/)?(\w+)\.", command)
    return f"{name} {chosen[1]}" if chosen else name


def add(lines):
    """By suite: devices, processes, launches, thread-instructions, processor time."""
    suites = {}
    for number, line in enumerate(lines, 1):
        try:
            one = json.loads(line)
            suite = suites.setdefault(suite_of(one["command"]), [set(), 0, 0, 0, 0.0])
            suite[0].update(part.split(":")[0] for part in one["device"].split(","))
            suite[1] += 1
            suite[2] += one["launches"]
            suite[3] += one["thread_instructions"]
            suite[4] += one["processor_seconds"]
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            sys.exit(f"totals.py: line {number} is not as FA_EMU_TOTALS writes it ({wrong!r}): {line.strip()[:80]}")
    return suites


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="the file of FA_EMU_TOTALS")
    options = parser.parse_args()
    try:
        with open(options.file, encoding="utf-8") as lines:
            suites = add(lines)
    except OSError as wrong:
        sys.exit(f"totals.py: {wrong}")
    if not suites:
        sys.exit(f"totals.py: {options.file} is empty: no process with FA_EMU_TOTALS that launched a kernel has ended")
    print("| suite | devices | processes | launches | thread-instructions | processor time |")
    print("|---|---|---|---|---|---|")
    rows = sorted(suites.items(), key=lambda item: -item[1][3])
    for name, (devices, processes, launches, instructions, seconds) in rows:
        print(f"| {name} | {len(devices)} | {processes} | {launches} | {instructions / 1e6:,.0f} M | {seconds:.1f} s |")
    sums = [sum(row[i] for _, row in rows) for i in range(1, 5)]
    print(f"| all | | {sums[0]} | {sums[1]} | {sums[2] / 1e6:,.0f} M | {sums[3]:.1f} s |")


if __name__ == "__main__":
    main()

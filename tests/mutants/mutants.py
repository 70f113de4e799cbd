"""Faults planted into a copy of the tree, one at a time: the tests named with each of them must fail.

mutants.py                          every fault of table.py
mutants.py --sample 10 --seed 7     ten of them, drawn by this seed
mutants.py --names NAME,...         these
mutants.py --generate 20 --seed 7   twenty that universalmutator makes of the sources (pip install universalmutator)
mutants.py --check                  only whether each text is in the sources, once, and each name in the table
"""

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from scratch import Scratch
from table import MUTANTS

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, metavar="N", help="N random ones of the table")
    parser.add_argument("--generate", type=int, metavar="N", help="N that universalmutator makes")
    parser.add_argument("--under", default="src", metavar="FOLDER", help="generate in this folder or file; default: src")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the drawing; default: 1")
    parser.add_argument("--names", default="", help="of the table, with commas")
    parser.add_argument("--check", action="store_true", help="run nothing")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutants", help="where the copy and its builds are kept")
    parser.add_argument(
        "--emulated-by", type=Path, metavar="BUILD", help="a build with the emulator and kernels for SM 80 and 75"
    )
    parser.add_argument("--jobs", default="2", help="of ninja and ctest; default: 2")
    return parser.parse_args()


def misplaced(mutants):
    """Those whose text is not in their file, or more than once."""
    wrong = [each for each in mutants if (ROOT / each.file).read_text(encoding="utf-8").count(each.old) != 1]
    for each in wrong:
        print(f"{each.name}: {each.file} has not once:\n{each.old}")
    return wrong


def repeated(mutants):
    """The names that several have."""
    counts = Counter(each.name for each in mutants)
    again = [name for name, count in counts.items() if count > 1]
    for name in again:
        print(f"{name}: {counts[name]} faults have this name; expected one, which --names can choose")
    return again


def chosen(options):
    if options.generate:
        from generate import generated  # which needs a package

        return generated(ROOT, options.under, options.generate, options.seed)
    names = [name for name in options.names.split(",") if name]
    unknown = set(names) - {each.name for each in MUTANTS}
    if unknown:
        raise SystemExit(f"table.py has no {', '.join(sorted(unknown))}")
    mutants = [each for each in MUTANTS if not names or each.name in names]
    if options.sample:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    return mutants


def main():
    options = arguments()
    mutants = chosen(options)
    if misplaced(mutants) + (repeated(MUTANTS) if options.check else []):
        return 2
    if options.check:
        print(f"{len(mutants)} faults, each in one place")
        return 0
    scratch = Scratch(ROOT, options.work, options.emulated_by, options.jobs)
    counts = {"caught": 0, "survived": 0, "left out": 0, "does not compile": 0}
    for each in mutants:
        start = time.monotonic()
        try:
            outcome, what = scratch.judge(each)
        except subprocess.SubprocessError as error:
            raise SystemExit(f"{each.name}: {error}") from error
        counts[outcome] += 1
        print(f"{outcome:<9} {each.name} ({time.monotonic() - start:.0f} s): {what}", flush=True)
        if outcome == "survived":
            print(f"          {each.file}: {each.old.strip()!r} -> {each.new.strip()!r}", flush=True)
    judged = counts["caught"] + counts["survived"]
    rate = f", {100 * counts['caught'] / judged:.0f} % of {judged}" if judged else ""
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number) + rate)
    return 1 if counts["survived"] and not options.generate else 0


if __name__ == "__main__":
    sys.exit(main())

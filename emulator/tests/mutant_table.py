"""The table of mutants in a README against the tests that there are: each line must be a test, each test have a line.

mutant_table.py README PROGRAM... --partly PROGRAM...   (of the later ones, tests that are no mutants need no line)
"""

import re
import subprocess
import sys


def tests_of(program):
    """Suite.Test of a GoogleTest program; of Mutants/Suite.Test/Name, Suite.Name."""
    names, suite = set(), ""
    for line in subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout.splitlines():
        line = line.split("#")[0].rstrip()
        if line.endswith("."):
            suite = line.removesuffix(".").split("/")[-1]
        elif line.startswith("  "):
            names.add(f"{suite}.{line.strip().split('/')[-1]}")
    return names


def main(readme, *programs):
    at = programs.index("--partly")
    whole = set().union(*map(tests_of, programs[:at]))
    partly = set().union(*map(tests_of, programs[at + 1 :]))
    with open(readme, encoding="utf-8") as file:
        lines = re.findall(r"^\| `([A-Z]\w+\.\w+)` \|", file.read(), re.MULTILINE)
    problems = [f"{name} is in the table and is no test" for name in lines if name not in whole | partly]
    problems += [f"{name} is a test and is not in the table" for name in sorted(whole - set(lines))]
    problems += [f"{name} is in the table twice" for name in sorted(set(lines)) if lines.count(name) > 1]
    problems += [] if lines else ["there is no table"]
    print("\n".join(problems) or f"{len(lines)} lines, each a test")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

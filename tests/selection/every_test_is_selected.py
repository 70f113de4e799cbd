"""Some ctest runs every test of a GoogleTest program: a suite that no filter names would silently not run.

every_test_is_selected.py CTEST BUILD REPEATING [ARCH...]
REPEATING: how the programs begin that contain another one's tests and run only some of them; ARCH: the GPU architectures that
the build has kernels for, "sm_80"

One instance of a parameterised test is enough: tests/engine chooses the instances that run on each emulated GPU.
"""

import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path


def commands_of(ctest, build):
    """The programs that ctests run with filters, and these filters; without those that also run unfiltered."""
    shown = subprocess.run([ctest, "--test-dir", build, "-C", "slow", "--show-only=json-v1"], capture_output=True, check=True)
    filters, unfiltered = {}, set()
    for test in json.loads(shown.stdout)["tests"]:
        command = test.get("command", [])
        if not command:
            continue
        program = tuple(word for word in command if not word.startswith("--gtest_"))
        given = [word.removeprefix("--gtest_filter=") for word in command if word.startswith("--gtest_filter=")]
        filters.setdefault(program, []).extend(given)
        if not given:
            unfiltered.add(program)
    return {program: given for program, given in filters.items() if given and program not in unfiltered}


def tests_of(program):
    listed = subprocess.run([*program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            yield suite + name.strip()
        elif name.endswith("."):
            suite = name


def is_selected(name, filters):
    for given in filters:
        wanted, _, unwanted = given.partition("-")
        matches = [any(fnmatch.fnmatchcase(name, each) for each in part.split(":")) for part in (wanted, unwanted)]
        if matches[0] and not matches[1]:
            return True
    return False


def main(ctest, build, repeating, *archs):
    missing, count = 0, 0
    for program, filters in commands_of(ctest, build).items():
        if Path(program[0]).name.startswith(repeating):
            continue
        if not Path(program[0]).exists():
            print(f"{program[0]} is not built")
            continue
        selected = {}
        for name in tests_of(program):
            arch = re.search(r"_(sm_\w+)$", name)
            if arch and arch[1] not in archs:
                continue
            definition = re.sub(r"^\w+/(?=\w+\.)|(?<=\w)/\w+$", "", name)
            selected[definition] = selected.get(definition, False) or is_selected(name, filters)
        count += len(selected)
        for definition in [each for each, is_run in selected.items() if not is_run]:
            print(f"{program[0].rsplit('/', 1)[-1]}: {definition} is not run by any ctest: add its suite to a filter")
            missing += 1
    print(f"{count} tests of the programs that ctest filters, {missing} of them not run")
    return 1 if missing or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

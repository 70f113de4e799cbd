"""The tests that take turns (cmake/test_rotation.cmake) all run within as many consecutive commits as the largest group has turns,
and those that others need run in each.

every_test_has_its_turn.py CTEST BUILD TURNS
"""

import json
import os
import re
import subprocess
import sys


def tests_of(ctest, build, number):
    """The names of the tests that ctest runs with FA_TEST_ROTATION=number, "" for all."""
    environment = os.environ | {"FA_TEST_ROTATION": number}
    shown = subprocess.run([ctest, "-N"], cwd=build, env=environment, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ +Test +#\d+: (\S+)$", shown, re.MULTILINE))


def fixtures_of(ctest, build):
    """The names of the tests that others need."""
    environment = os.environ | {"FA_TEST_ROTATION": ""}
    shown = subprocess.run([ctest, "--show-only=json-v1"], cwd=build, env=environment, capture_output=True, check=True)
    tests = json.loads(shown.stdout)["tests"]
    return {test["name"] for test in tests if any(each["name"] == "FIXTURES_SETUP" for each in test.get("properties", []))}


def main(ctest, build, turns):
    every, failures, first = tests_of(ctest, build, ""), 0, 1000
    taken = [tests_of(ctest, build, str(first + turn)) for turn in range(int(turns))]
    for missing in sorted(every - set.union(*taken)):
        print(f"{missing} runs in none of the turns {first} to {first + len(taken) - 1}")
        failures += 1
    for turn, tests in enumerate(taken):
        for missing in sorted(fixtures_of(ctest, build) & every - tests):
            print(f"turn {first + turn} lacks {missing}, which others need")
            failures += 1
        if not tests < every:
            print(f"turn {first + turn} leaves no test to the others")
            failures += 1
    print(f"{len(every)} tests, of which {', '.join(str(len(tests)) for tests in taken)} run by turns")
    return 1 if failures or not every else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

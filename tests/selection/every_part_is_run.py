"""Where the ctests of a suite share its cases out (TEST_SHARE), there is one for every part.

every_part_is_run.py CTEST BUILD

A test named suite.types.isa runs one of TEST_SHARE parts, by the place of its types among all (tests/engine/target.cpp). Of a
test with the label "sample" one part is enough.
"""

import json
import subprocess
import sys

TYPES = ["f32", "f16", "bf16", "mixed"]  # all_types of tests/engine/target.h


def shares_of(ctest, build):
    """Of each suite and ISA: how many parts there are, and which of them are run."""
    shown = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, check=True)
    suites = {}
    for test in json.loads(shown.stdout)["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        shares = [one.removeprefix("TEST_SHARE=") for one in properties.get("ENVIRONMENT", []) if one.startswith("TEST_SHARE=")]
        if not shares or "sample" in properties.get("LABELS", []):
            continue
        suite, types, isa = test["name"].split(".")
        counts, parts = suites.setdefault((suite, isa), (set(), set()))
        counts.add(int(shares[0]))
        parts.add(TYPES.index(types) % int(shares[0]))
    return suites


def main(ctest, build):
    suites, incomplete = shares_of(ctest, build), 0
    for (suite, isa), (counts, parts) in suites.items():
        if len(counts) != 1 or len(parts) != max(counts):
            print(f"{suite} of {isa}: shared among {sorted(counts)}, and of the parts {sorted(parts)} alone are run")
            incomplete += 1
    print(f"{len(suites)} suites share their cases out, {incomplete} of them without all parts")
    return 1 if incomplete or not suites else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Where the ctests of a suite run shards of its cases (TEST_SHARE), there is one for every shard.

every_part_is_run.py CTEST BUILD

A test named suite.types.isa runs one of TEST_SHARE shards, by the index of its types among all (tests/engine/target.cpp). A
test with the label "sample" runs one shard only.
"""

import json
import subprocess
import sys

TYPES = ["f32", "f16", "bf16", "mixed"]  # all_types of tests/engine/target.h


def shares_of(ctest, build):
    """For each suite and ISA: the number of shards, and those that are run."""
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
            print(f"{suite} of {isa}: of {sorted(counts)} shards only {sorted(parts)} are run")
            incomplete += 1
    print(f"{len(suites)} suites run in shards, {incomplete} of them without all shards")
    return 1 if incomplete or not suites else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

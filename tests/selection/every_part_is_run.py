"""Where the ctests of a suite run shards of its cases (TEST_SHARE), there is one for every shard.

every_part_is_run.py CTEST BUILD

A test named suite.types.isa runs the shard TEST_SHARD of TEST_SHARE. A test without it, or with the label "sample", runs one
shard only.
"""

import json
import subprocess
import sys


def shares_of(ctest, build):
    """For each suite and ISA: the number of shards, and those that are run."""
    shown = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1"], capture_output=True, check=True)
    suites = {}
    for test in json.loads(shown.stdout)["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        environment = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        if "TEST_SHARD" not in environment or "sample" in properties.get("LABELS", []):
            continue
        suite, _, isa = test["name"].split(".")
        counts, parts = suites.setdefault((suite, isa), (set(), set()))
        counts.add(int(environment["TEST_SHARE"]))
        parts.add(int(environment["TEST_SHARD"]))
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

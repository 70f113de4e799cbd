#!/usr/bin/env python3
"""Measures every table of tiles that a family has (kernels/presets.inc) against the standard one, and prints the
fastest at each head dimension, and by which line it becomes the default. A table whose results are wrong is out; where two
have the same tiles, one is measured."""
import argparse
import json
import math
import re
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import tools
from gpu.tools import FAILED, NOT_AVAILABLE, NOT_RUN, OUT_OF_TIME, PASSED, ROOT

STANDARD = "standard"
NARROW = "192/128"  # values of 128 columns with queries of 192, which have separate tiles
DIMS = ("64", "96", "128", "192", NARROW, "256")
LENGTHS = (512, 2048, 8192, 16384)
COLUMNS = 2048  # of all heads together
LEAST_GAIN = 1.005  # below which the standard table stays


def presets(family):
    """The family's, the standard one first."""
    lines = (ROOT / "kernels" / "presets.inc").read_text()
    return [STANDARD, *re.findall(rf"^FA_PRESET\((\w+), {family}\)", lines, re.M)]


def shapes(tokens, dims):
    """B,Hq,Hkv,Sq,Sk,D[,Dv]: a total number of tokens, in sequences of each length up to it."""
    lengths = [length for length in LENGTHS if length <= tokens] or [tokens]
    heads = lambda dim: max(COLUMNS // int(dim.split("/")[0]), 1)
    return [f"{tokens // length},{heads(dim)},{heads(dim)},{length},{length},{dim.replace('/', ',')}" for dim in dims for length in lengths]


def dim_of(shape):
    """The inverse, as far as the head dimension goes."""
    return "/".join(shape.split(",")[5:])


def tiles(folder, family):
    """Head dimension -> a table's tiles there, by the tiles.txt that prepare wrote; empty without one."""
    file, found = folder / "tiles.txt", {}
    for line in file.read_text().splitlines() if file.exists() else []:
        of, dim, entry, *numbers = line.split()
        if of == family:
            found[NARROW if entry.endswith("narrow") else dim] = numbers
    return found


class Sweep:
    """The shapes that are measured in the time that is left."""

    def __init__(self, options):
        self.options, self.pack = options, tools.Pack(options.pack)
        self.end = time.monotonic() + options.seconds
        self.seconds = {}  # preset -> (shape, causal) -> those of each round

    def left(self):
        return max(self.end - time.monotonic(), 0)

    def fa(self, preset, *arguments):
        environment = self.pack.environment()
        folder = self.pack.folder / "tune" / preset
        environment["LD_LIBRARY_PATH"] = f"{folder}:{environment['LD_LIBRARY_PATH']}"
        return tools.run([self.pack.program("fa"), *arguments], self.left(), environment)

    def check(self, preset):
        """Whether a table's kernels are right, as an item."""
        if not (self.pack.folder / "tune" / preset / "libfa.so.0").exists():
            return {"name": preset, "status": NOT_AVAILABLE, "reason": "not in the pack: scripts/gpu-session.sh prepare --tune"}
        if self.options.unchecked:
            return {"name": preset, "status": NOT_RUN, "reason": "not checked"}
        outcome = self.fa(preset, "check", "--kernel", self.options.kernel)
        item = outcome.item(preset)
        if item["status"] == PASSED and not re.search(r"All [1-9]\d* checks are right", outcome.output):
            item.update(status=FAILED, output=outcome.tail())
        return item

    def same_as(self, preset, dim):
        """The first table whose tiles at a head dimension are this one's: itself where it has its own, or they are unknown."""
        mine = tiles(self.pack.folder / "tune" / preset, self.options.family).get(dim)
        for other in presets(self.options.family):
            if other == preset or mine is not None and tiles(self.pack.folder / "tune" / other, self.options.family).get(dim) == mine:
                return other
        return preset

    def measure(self, preset, causal):
        """A round of a table over all shapes at which its tiles differ; why not, where that fails."""
        o = self.options
        dims = [dim for dim in o.dims if self.same_as(preset, dim) == preset]
        if not dims:
            return None
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "round.json"
            cases = [word for shape in shapes(o.tokens, dims) for word in ("--shape", shape)]
            outcome = self.fa(preset, "bench", *cases, *(["--causal"] if causal else []), "--dtype", o.dtype, "--kernel", o.kernel,
                              "--rounds", o.rounds, "--time", o.time, "--json", file)
            if outcome.status != PASSED:
                return outcome.item(f"{preset}{' causal' if causal else ''}")
            of = self.seconds.setdefault(preset, {})
            for result in json.loads(file.read_text())["results"]:
                of.setdefault((result["shape"], causal), []).append(result["median_seconds"])
        return None

    def run(self):
        """Tables in alternation, so that a falling clock affects all of them."""
        items = [self.check(preset) for preset in presets(self.options.family)]
        right = [item["name"] for item in items if item["status"] in (PASSED, NOT_RUN)]
        for _ in range(self.options.turns):
            for causal in (False, True):
                for preset in list(right):
                    if self.left() == 0:
                        return items + [{"name": "time", "status": OUT_OF_TIME, "reason": "turns are missing"}]
                    problem = self.measure(preset, causal)
                    if problem:
                        items.append(problem)
                        right.remove(preset)
                        self.seconds.pop(preset, None)
        return items


def gains(seconds):
    """Head dimension -> preset -> times as fast as the standard one: the mean over the shapes that both were measured at, by the
    fastest round of each."""
    found = {}
    for preset, of in seconds.items():
        logs = {}
        for case, rounds in of.items():
            if case in seconds.get(STANDARD, {}):
                logs.setdefault(dim_of(case[0]), []).append(math.log(min(seconds[STANDARD][case]) / min(rounds)))
        for dim, values in logs.items():
            found.setdefault(dim, {})[preset] = math.exp(sum(values) / len(values))
    return found


def winner(of_presets):
    best = max(of_presets, key=of_presets.get)
    return best if of_presets[best] >= LEAST_GAIN else STANDARD


def report(family, found):
    """The table, and the lines that make the winners the default. A table without a figure has the tiles of another there."""
    names = [preset for preset in presets(family) if any(preset in of for of in found.values())]
    rows = ["| head dimension | " + " | ".join(names) + " | fastest |", "|---" * (len(names) + 2) + "|"]
    found = {dim: found[dim] for dim in DIMS if dim in found}
    for dim, of in found.items():
        gains_of = " | ".join(f"{of[name]:.3f}" if name in of else "" for name in names)
        rows.append(f"| {dim} | {gains_of} | {winner(of)} |")
    rows += ["", f"To make them the default, in `winners` of kernels/forward/{family}/tiles.h:", ""]
    rows += [f"    {{{dim}, Preset::{winner(of)}}}," for dim, of in found.items() if dim != NARROW]
    if NARROW in found:
        rows += ["", f"At {NARROW} it is {winner(found[NARROW])}: Entry::narrow in `shape` and `shape_of` of kernels/forward/{family}/tiles.h."]
    return "\n".join(rows) + "\n"


def parse():
    parser = argparse.ArgumentParser(prog="scripts/gpu-session.sh tune", description=__doc__)
    parser.add_argument("--pack", default=ROOT / "build" / "session", help="the output of scripts/gpu-session.sh prepare --tune")
    parser.add_argument("--kernel", default="cuda.sm_90a.wgmma", help="whose tables; default: %(default)s")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "session-results", help="folder of tune.json and tune.md")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--dims", default=DIMS, type=lambda text: text.split(","), help="head dimensions")
    parser.add_argument("--tokens", type=int, default=LENGTHS[-1], help="of a call")
    parser.add_argument("--turns", type=int, default=3, help="of all tables")
    parser.add_argument("--rounds", type=int, default=5, help="of fa bench, in a turn")
    parser.add_argument("--time", type=float, default=0.05, help="seconds of a call in a round")
    parser.add_argument("--seconds", type=float, default=1800, help="of all")
    parser.add_argument("--unchecked", action="store_true", help="do not check results: to try this program without a GPU")
    options = parser.parse_args()
    options.family = options.kernel.rsplit(".", 1)[-1]
    if len(presets(options.family)) == 1:
        parser.error(f"kernels/presets.inc has no tables of {options.family} (--kernel {options.kernel})")
    return options


def main():
    options = parse()
    sweep = Sweep(options)
    items = sweep.run()
    found = gains(sweep.seconds)
    text = report(options.family, found)
    measured = [{"preset": preset, "shape": shape, "causal": causal, "seconds": rounds}
                for preset, of in sweep.seconds.items() for (shape, causal), rounds in of.items()]
    tools.write_json(options.out / "tune.json", {
        **tools.provenance(sweep.pack), "kernel": options.kernel, "dtype": options.dtype, "items": items, "gains": found,
        "measured": measured})
    (options.out / "tune.md").write_text(text)
    print(text)
    for item in items:
        if item["status"] != PASSED:
            print(f"{item['name']}: {item['status']}: {item.get('reason') or item.get('output')}")
    bad = {FAILED, OUT_OF_TIME} & {item["status"] for item in items}
    return 1 if bad or not found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the phases of a GPU session, each within its seconds, and writes each one's JSON as soon as it ends."""
import argparse
import re
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import preflight, summary, tools
from gpu.phases import PHASES
from gpu.tools import FAILED, NOT_RUN, OUT_OF_TIME, PASSED, ROOT

SESSION_SECONDS = 540
NOTHING_RAN = 77  # an exit status


class Session:
    """What a phase is given: the pack, which kernels, and how many seconds it has left."""

    def __init__(self, pack, kernels, seconds):
        self.pack, self.kernels = pack, kernels
        self.end = time.monotonic() + seconds
        self.phase_end = self.end

    def begin(self, seconds):
        self.phase_end = min(self.end, time.monotonic() + seconds)

    def left(self):
        return max(self.phase_end - time.monotonic(), 0)


def gpu_name():
    """As a folder's name: "nvidia-h200"; None without one."""
    outcome = tools.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], 20)
    if outcome.code != 0 or not outcome.output.strip():
        return None
    name = outcome.output.strip().splitlines()[0]
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def folder_of_results(dry):
    """What nothing was measured for is not kept."""
    name = None if dry else gpu_name()
    return ROOT / "bench" / "results" / name if name else ROOT / "build" / "session-results"


def run_phase(session, name, dry, patience):
    work, budget = PHASES[name][0], PHASES[name][1] * patience
    start = time.monotonic()
    session.begin(budget)
    if dry:
        result = {"status": NOT_RUN, "items": []}
    elif session.left() <= 1:
        result = {"status": OUT_OF_TIME, "reason": "the session's time was used up before it", "items": []}
    else:
        try:
            result = work(session)
        except Exception as error:  # one phase's surprise must not cost the others
            result = {"status": FAILED, "reason": f"{type(error).__name__}: {error}", "items": []}
    return {"phase": name, "seconds": round(time.monotonic() - start, 1), "budget_seconds": budget, **result}


def versions(results):
    """Of the driver and of torch, where the machine's report has them."""
    found = {}
    for item in results.get("machine", {}).get("items", []):
        values = item.get("values", {})
        found.update({name: values[name] for name in ("driver_version", "torch", "cuda", "cudnn") if name in values})
    return found


def parse():
    parser = argparse.ArgumentParser(prog="scripts/gpu-session.sh run", description=__doc__)
    parser.add_argument("--phases", help=f"of {','.join(PHASES)}; all of them by default, in this order")
    parser.add_argument("--out", type=Path, help="folder of the results; by default bench/results/<gpu>, without one build/session-results")
    parser.add_argument("--pack", default=ROOT / "build" / "session", help="what scripts/gpu-session.sh prepare made")
    parser.add_argument("--kernels", help="of check and ported only these, separated by commas")
    parser.add_argument("--seconds", type=float, default=SESSION_SECONDS, help="of the whole session")
    parser.add_argument("--patience", type=float, default=1, help="a factor for the seconds of each phase")
    parser.add_argument("--dry-run", action="store_true", help="run no phase, but write what would be run")
    parser.add_argument("--list", action="store_true", help="print the phases and their seconds")
    options = parser.parse_args()
    chosen = options.phases.split(",") if options.phases else list(PHASES)
    for name in chosen:
        if name not in PHASES:
            parser.error(f"there is no phase {name}; there are {', '.join(PHASES)}")
    options.phases = [name for name in PHASES if name in chosen]
    return options


def main():
    options = parse()
    if options.list:
        for name in options.phases:
            work, seconds = PHASES[name]
            print(f"{name:<10} {seconds:>4} s  {work.__doc__.splitlines()[0]}")
        return 0
    pack = tools.Pack(options.pack)
    session = Session(pack, options.kernels.split(",") if options.kernels else None, options.seconds)
    out = options.out or folder_of_results(options.dry_run)
    for problem in preflight.problems(pack):
        print(f"preflight: {problem}", file=sys.stderr)
    results = {}
    for name in options.phases:
        results[name] = run_phase(session, name, options.dry_run, options.patience)
        facts = tools.provenance(pack)
        facts["versions"].update(versions(results))
        tools.write_json(out / f"{name}.json", {**facts, **results[name]})
        print(f"{name}: {results[name]['status']} ({results[name]['seconds']} s)", flush=True)
    text = summary.table(results)
    (out / "summary.md").write_text(text)
    print(f"\n{text}\n{out}")
    states = {result["status"] for result in results.values()}
    return 1 if {FAILED, OUT_OF_TIME} & states else 0 if {PASSED, NOT_RUN} & states else NOTHING_RAN


if __name__ == "__main__":
    sys.exit(main())

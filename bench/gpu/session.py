#!/usr/bin/env python3
"""Runs the phases of a GPU session, each within its seconds. All results are in one file, session.json, rewritten after
each phase, with a table; failures.txt has the whole output of what failed. A call continues after the one before it: a phase that no longer fits is left to the next."""
import argparse
import json
import re
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from gpu import preflight, summary, tools
from gpu.phases import NEED_TORCH, PHASES
from gpu.tools import FAILED, NOT_RUN, OUT_OF_TIME, PASSED, ROOT

CALL_SECONDS = 540
NOTHING_RAN = 77  # an exit status


class Session:
    """The input of a phase: the pack, which kernels and tests, the seconds that it has left, a factor for limits of time,
    and the results of the phases before it."""

    def __init__(self, pack, kernels, seconds, results, tests=None, patience=1):
        self.pack, self.kernels, self.results, self.tests, self.patience = pack, kernels, results, tests, patience
        self.end = time.monotonic() + seconds
        self.phase_end = self.end
        self.torch = tools.Torch()

    def begin(self, seconds):
        self.phase_end = min(self.end, time.monotonic() + seconds)

    def left(self):
        return max(self.phase_end - time.monotonic(), 0)

    def fits(self, seconds):
        return time.monotonic() + seconds <= self.end


def gpu_name():
    """As a folder's name: "nvidia-h200"; None without one."""
    outcome = tools.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], 20)
    if outcome.code != 0 or not outcome.output.strip():
        return None
    name = outcome.output.strip().splitlines()[0]
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def folder_of_results(dry):
    """Results without a measurement are not kept."""
    name = None if dry else gpu_name()
    return ROOT / "bench" / "results" / name if name else ROOT / "build" / "session-results"


def run_phase(session, name, dry, patience):
    work, budget = PHASES[name][0], PHASES[name][1] * patience
    start = time.monotonic()
    session.begin(budget)
    if dry:
        result = {"status": NOT_RUN, "items": []}
    else:
        try:
            result = work(session)
        except Exception as error:  # one phase's surprise must not cost the others
            result = {"status": FAILED, "reason": f"{type(error).__name__}: {error}", "items": []}
    return {"phase": name, "seconds": round(time.monotonic() - start, 1), "budget_seconds": budget, **result}


def versions(results):
    """The versions of the driver and of torch, where the machine's report has them."""
    found = {}
    for item in results.get("machine", {}).get("items", []):
        values = item.get("values", {})
        found.update({name: values[name] for name in ("driver_version", "torch", "cuda", "cudnn") if name in values})
    return found


def parse():
    parser = argparse.ArgumentParser(prog="scripts/gpu-session.sh run", description=__doc__)
    parser.add_argument("--phases", help=f"of {','.join(PHASES)}; all of them by default, in this order")
    parser.add_argument("--out", type=Path, help="folder of the results; by default bench/results/<gpu>, without one build/session-results")
    parser.add_argument("--before", type=Path, help="session.json of the calls before this one; by default the folder's own")
    parser.add_argument("--again", action="store_true", help="run phases that have results, too")
    parser.add_argument("--pack", default=ROOT / "build" / "session", help="the output of scripts/gpu-session.sh prepare")
    parser.add_argument("--kernels", help="of check and ported only these, separated by commas")
    parser.add_argument("--tests", help="of driver only these tests, separated by commas, with wildcards: Context.*,Wgmma.Many*")
    parser.add_argument("--seconds", type=float, default=CALL_SECONDS, help="of this call")
    parser.add_argument("--patience", type=float, default=1, help="a factor for the seconds of each phase")
    parser.add_argument("--dry-run", action="store_true", help="run no phase, but write the commands")
    parser.add_argument("--list", action="store_true", help="print the phases and their seconds")
    options = parser.parse_args()
    chosen = options.phases.split(",") if options.phases else list(PHASES)
    for name in chosen:
        if name not in PHASES:
            parser.error(f"there is no phase {name}; there are {', '.join(PHASES)}")
    options.phases = [name for name in PHASES if name in chosen]
    return options


def results_before(file):
    """The results of earlier calls, by phase."""
    if not file.exists():
        return {}
    try:
        return {name: result for name, result in json.loads(file.read_text())["phases"].items() if result["status"] != NOT_RUN}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SystemExit(f"{file} is no session.json of an earlier call ({type(error).__name__}: {error})")


def main():
    options = parse()
    if options.list:
        for name in options.phases:
            work, seconds = PHASES[name]
            print(f"{name:<10} {seconds:>4} s  {work.__doc__.splitlines()[0]}")
        return 0
    pack = tools.Pack(options.pack)
    out = options.out or folder_of_results(options.dry_run)
    if options.before and not options.before.exists():
        raise SystemExit(f"--before: there is no {options.before}; expected session.json of an earlier call")
    before = results_before(options.before or out / "session.json")
    results = dict(before)
    chosen = [name for name in options.phases if options.again or name not in before]
    session = Session(pack, options.kernels.split(",") if options.kernels else None, options.seconds, results,
                      options.tests.split(",") if options.tests else None, options.patience)
    if not options.dry_run and any(name in NEED_TORCH for name in chosen):
        session.torch.begin()
    for problem in preflight.problems(pack):
        print(f"preflight: {problem}", file=sys.stderr)
    if not chosen:
        print("every phase that was asked for has results; --again repeats it")
        return 0
    ran, left_over = [], []
    for name in chosen:
        if ran and not options.dry_run and not session.fits(PHASES[name][1] * options.patience):
            left_over.append(name)
            continue
        result = run_phase(session, name, options.dry_run, options.patience)
        results[name] = {**tools.provenance(pack), **result}
        ran.append(result["status"])
        facts = {"versions": versions(results), "phases": {name: results[name] for name in PHASES if name in results}}
        tools.write_json(out / "session.json", facts)
        tools.keep_failures(out / "failures.txt", name, result["items"])
        print(f"{name}: {result['status']} ({result['seconds']} s)", flush=True)
    text = summary.table({name: results[name] for name in PHASES if name in results}, left_over)
    out.mkdir(parents=True, exist_ok=True)
    (out / "summary.md").write_text(text)
    print(f"\n{text}\n{out}")
    return 1 if {FAILED, OUT_OF_TIME} & set(ran) else 0 if {PASSED, NOT_RUN} & set(ran) else NOTHING_RAN


if __name__ == "__main__":
    sys.exit(main())

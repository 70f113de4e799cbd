"""Shared by the phases of a session: programs with a time limit, the folder that `prepare` made, results as JSON."""
import concurrent.futures
import datetime
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The status of a phase, or of an item of one. Only work that ran and was seen to be right is "passed".
PASSED, FAILED, OUT_OF_TIME = "passed", "failed", "out of time"
NOT_AVAILABLE, NOT_RUN = "not available", "not run"


class Item(dict):
    """An entry of a phase's results; `log` is the whole output of its program, of which the results have the end at most."""

    log = ""


class Outcome:
    """How a program ended."""

    def __init__(self, command, code, output, seconds, timed_out):
        self.command, self.code, self.output = command, code, output
        self.seconds, self.timed_out = seconds, timed_out

    @property
    def status(self):
        return OUT_OF_TIME if self.timed_out else PASSED if self.code == 0 else FAILED

    def tail(self, lines=12):
        return "\n".join(self.output.strip().splitlines()[-lines:])

    def item(self, name, **more):
        """As an entry of a phase's results; with the end of its output where it did not pass."""
        entry = Item(name=name, status=self.status, seconds=round(self.seconds, 2), command=shlex.join(self.command))
        entry.log = self.output
        if self.status != PASSED:
            entry.update(exit_code=self.code, output=self.tail())
        entry.update(more)
        return entry


def run(command, seconds, environment=None):
    """Runs a program in a new process group, which is ended after the seconds given."""
    command = [str(part) for part in command]
    start = time.monotonic()
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True)
    except OSError as error:
        return Outcome(command, 127, str(error), 0, False)
    timed_out = False
    try:
        output, _ = process.communicate(timeout=max(seconds, 0.1))
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return Outcome(command, process.returncode, output, time.monotonic() - start, timed_out)


def probe(tool, *arguments, seconds=20):
    """None where the tool runs; else why it is not available."""
    if shutil.which(str(tool)) is None:
        return f"{tool} is not on the PATH"
    outcome = run([tool, *arguments], seconds)
    if outcome.timed_out:
        return f"{tool} did not end in {seconds} s"
    return None if outcome.code == 0 else f"{shlex.join(outcome.command)}: exit status {outcome.code}: {outcome.tail(2)}"


class Torch:
    """Whether this Python has torch and torch has a GPU. The first import reads gigabytes, for which a fresh machine takes
    long: it runs in parallel with the phases that do not need torch."""

    SECONDS = 120

    def __init__(self):
        self.trial = None

    def begin(self):
        program = "import torch; torch.zeros(1, device='cuda')"
        self.trial = self.trial or concurrent.futures.ThreadPoolExecutor(1).submit(run, [sys.executable, "-c", program], self.SECONDS)

    def why_not(self):
        """None where it can be used; else why not."""
        self.begin()
        outcome = self.trial.result()
        return None if outcome.status == PASSED else f"torch with a GPU: {outcome.tail(1) or outcome.status}"


class Pack:
    """The folder that `scripts/gpu-session.sh prepare` fills: programs, the library, images made from older PTX."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        file = self.folder / "pack.json"
        self.facts = json.loads(file.read_text()) if file.exists() else {}
        self.ported = self.folder / "ported"
        self.library = self.folder / "lib" / "libfa.so.0"

    def bytes(self):
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def program(self, name):
        return self.folder / "bin" / name

    def environment(self, ported=False):
        """The programs' environment; ported: they take images made from older PTX, and the driver compiles none."""
        paths = [str(self.folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        environment = {"LD_LIBRARY_PATH": ":".join(filter(None, paths))}
        if ported:
            environment.update(FA_KERNEL_PATH=str(self.ported), CUDA_DISABLE_PTX_JIT="1")
        return environment

    def ported_archs(self):
        """The architectures whose PTX was assembled beforehand: ["sm_75", "sm_80"]."""
        names = {file.name.split(".")[0] for file in self.ported.glob("*.fatbin")}
        return sorted(names, key=lambda name: int(re.sub(r"\D", "", name)))

    def kernels(self):
        """The GPU's kernels of `fa info` that this machine runs, and why there are none."""
        outcome = run([self.program("fa"), "info", "--json"], 60, self.environment())
        if outcome.code != 0:
            return [], f"fa info: {outcome.tail(2)}"
        kernels = [kernel for kernel in json.loads(outcome.output)["kernels"] if kernel["device"] == "cuda"]
        here = [kernel for kernel in kernels if kernel["available"]]
        why = kernels[0]["unavailable_reason"] if kernels else "the library has no GPU kernels"
        return here, None if here else why

    def native(self, kernels):
        """Those whose images this machine runs as they are; the best architecture's alone."""
        own = [kernel for kernel in kernels if kernel["arch"] not in self.ported_archs()] or kernels
        return [kernel for kernel in own if kernel["arch"] == own[0]["arch"]]


def git(*arguments):
    outcome = run(["git", *arguments], 10)
    return outcome.output.strip() if outcome.code == 0 else None


def provenance(pack):
    """The origin of a result."""
    return {
        "commit": pack.facts.get("commit") or git("rev-parse", "HEAD"),
        "changed": pack.facts.get("changed", False),
        "command": shlex.join(sys.argv),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": {"python": sys.version.split()[0], "nvcc": pack.facts.get("nvcc")},
    }


def write_json(path, value):
    """Whole or not at all: a session that is cut off leaves no half a file. Results are published: they name no
    folder of the machine."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text.replace(f"{ROOT}/", ""))
    new.replace(path)


def keep_failures(path, phase, items):
    """Replaces the phase's part of a file with the whole output of each item that failed or ran out of time; a file of
    no part is removed."""
    mark = "######## phase "
    parts = {}
    for part in (path.read_text() if path.exists() else "").split(f"\n{mark}"):
        if part:
            parts[part.removeprefix(mark).split("\n", 1)[0]] = part.removeprefix(mark)
    bad = [item for item in items if item["status"] in (FAILED, OUT_OF_TIME) and getattr(item, "log", "").strip()]
    parts.pop(phase, None)
    if bad:
        parts[phase] = "\n".join([phase, *(f"==== {item['name']}: {item['status']}\n$ {item['command']}\n{item.log}" for item in bad)])
    if parts:
        write_text(path, "\n".join(mark + part for part in parts.values()))
    else:
        path.unlink(missing_ok=True)

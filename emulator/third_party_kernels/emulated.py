"""Runs a program on the emulator and reads its report: exit status, findings, speed."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile

import preloaded


@dataclasses.dataclass
class Outcome:
    """The outcome of one run."""

    right: bool
    wrong: bool  # its own verification says so, whatever its status
    why: str  # the line that says so, or the last one of a run that failed
    findings: list  # of the checks, as FA_EMU_JSON has them
    faults: list  # the faults that ended launches
    instructions: int  # of threads
    seconds: float  # in kernels
    launches: int

    @property
    def speed(self):
        """Millions of thread instructions a second."""
        return self.instructions / self.seconds / 1e6 if self.seconds else 0.0


# The lines that programs print where their results are wrong; some (CUTLASS 88) end with 0 all the same.
WRONG = re.compile(r"WRONG|Failed|\[FAIL\].*|Disposition: Failed")


def use(emulator):
    """Programs load the emulator from this folder from now on."""
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(emulator), os.environ.get("LD_LIBRARY_PATH"))))


def start(command, environment, timeout):
    """Runs a command: its status, None where it has not ended by then, and its output."""
    if script := preloaded.script_of(command):
        return preloaded.run(script, environment, timeout)
    with tempfile.TemporaryFile(prefix="third-party-") as output:
        try:
            done = subprocess.run(
                command, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT, timeout=timeout, check=False
            )
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = None
        output.seek(0)
        return status, output.read().decode(errors="replace")


def run(device, command, *, check, seed=0, environment=None, timeout=900):
    """Runs a program as a device; check: 0 or 1."""
    with tempfile.TemporaryDirectory(prefix="third-party-") as folder:
        report = pathlib.Path(folder, "report.json")
        settings = {
            "FA_EMU_DEVICE": device,
            "FA_EMU_CHECK": str(check),
            "FA_EMU_SEED": str(seed),
            "FA_EMU_JSON": str(report),
            "FA_EMU_QUIET": "1",
        }
        status, text = start(command, {**settings, **(environment or {})}, timeout)
        if status is None:
            text += f"\nno end within {timeout} s"
        launches = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if WRONG.fullmatch(line)]
    right = status == 0 and not wrong
    return Outcome(
        right,
        bool(wrong),
        "" if right else (wrong or lines or ["it printed nothing"])[-1],
        [finding for launch in launches for finding in launch["violations"]],
        [launch["fault"] for launch in launches if launch["fault"]],
        sum(launch["thread_instructions"] for launch in launches),
        sum(launch["seconds"] for launch in launches),
        len(launches),
    )

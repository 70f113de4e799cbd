"""Runs a program on the emulator and reads what it reported: whether it ended well, findings, speed."""

import dataclasses
import json
import os
import pathlib
import subprocess
import tempfile


@dataclasses.dataclass
class Outcome:
    """What came of one run."""

    right: bool
    why: str  # the last line of a run that failed
    findings: list  # of the checks, as FA_EMU_JSON has them
    faults: list  # what ended launches
    instructions: int  # of threads
    seconds: float  # in kernels
    launches: int

    @property
    def speed(self):
        """Millions of thread instructions a second."""
        return self.instructions / self.seconds / 1e6 if self.seconds else 0.0


def run(emulator, device, command, *, check, seed=0, environment=None, timeout=300):
    """Runs a program as a device; check: 0 or 1."""
    with tempfile.TemporaryDirectory(prefix="strangers-") as folder:
        report = pathlib.Path(folder, "report.json")
        settings = {
            "FA_EMU_DEVICE": device,
            "FA_EMU_CHECK": str(check),
            "FA_EMU_SEED": str(seed),
            "FA_EMU_JSON": str(report),
            "FA_EMU_QUIET": "1",
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(emulator), os.environ.get("LD_LIBRARY_PATH")))),
        }
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **settings, **(environment or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
            right, text = done.returncode == 0, done.stdout
        except subprocess.TimeoutExpired as late:
            output = late.stdout or ""
            text = (output.decode(errors="replace") if isinstance(output, bytes) else output) + f"\nno end within {timeout} s"
            right = False
        launches = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    lines = [line for line in text.splitlines() if line.strip()]
    return Outcome(
        right,
        "" if right else (lines or ["it printed nothing"])[-1],
        [finding for launch in launches for finding in launch["violations"]],
        [launch["fault"] for launch in launches if launch["fault"]],
        sum(launch["thread_instructions"] for launch in launches),
        sum(launch["seconds"] for launch in launches),
        len(launches),
    )

"""The type hints: mypy --strict finds nothing in the package and in a client, and tells a wrong client of each mistake."""

import os
import subprocess
import sys

from conftest import SOURCE

HERE = SOURCE / "bindings" / "python"
WRONG = ["libfa.attention(1, 2, 3, windows=(1, 2))", "libfa.capi.fa_create(3)", "libfa.Op(3)", "libfa.attention(1, 2)"]


def test_mypy(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("\n".join(["import libfa, libfa.capi", *WRONG, ""]))
    files = [HERE / "libfa", HERE / "tests" / "client.py", wrong]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        f"--config-file={SOURCE / 'pyproject.toml'}",
        f"--cache-dir={tmp_path}",
    ]
    environment = {**os.environ, "MYPYPATH": str(HERE)}
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, env=environment)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert errors and all(str(wrong) in line for line in errors), done.stdout + done.stderr
    assert {line.split(":")[1] for line in errors} == {str(2 + index) for index in range(len(WRONG))}, done.stdout


def test_the_client_runs():
    done = subprocess.run([sys.executable, str(HERE / "tests" / "client.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "cpu." in done.stdout, done.stderr

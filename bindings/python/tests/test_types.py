"""The type hints: mypy --strict on the package and on a client, and a wrong client is told."""

import os
import subprocess
import sys

import pytest
from conftest import SOURCE

TESTS = SOURCE / "bindings" / "python" / "tests"


def mypy(*files, cache):
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={cache}", *map(str, files)]
    environment = {**os.environ, "MYPYPATH": str(SOURCE / "bindings" / "python")}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_the_package_and_a_client(tmp_path):
    done = mypy(SOURCE / "bindings" / "python" / "libfa", TESTS / "client.py", cache=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("wrong", ["libfa.attention(1, 2, 3, windows=(1, 2))", "libfa.capi.fa_create(3)", "libfa.Op(3)"])
def test_wrong_clients_are_told(tmp_path, wrong):
    (tmp_path / "wrong.py").write_text(f"import libfa\n{wrong}\n")
    done = mypy(tmp_path / "wrong.py", cache=tmp_path)
    assert done.returncode == 1, done.stdout


def test_the_client_runs():
    done = subprocess.run([sys.executable, str(TESTS / "client.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "cpu." in done.stdout, done.stderr

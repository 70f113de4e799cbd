"""Shared by the tests: missing packages, the folder of the sources, and the reader of fa.h."""

import importlib
import os
import pathlib
import sys

import pytest

SOURCE = pathlib.Path(os.environ["FA_SOURCE"])
sys.path.insert(0, str(SOURCE / "bindings"))


def pytest_configure(config):
    """A file that names packages in its line `# needs: torch, ...`, or a file of the environment in `# needs file: ...`, ends
    as skipped (77) where one is missing."""
    for argument in config.args:
        for line in pathlib.Path(argument).read_text().splitlines() if argument.endswith(".py") else ():
            if line.startswith("# needs file: "):
                path = pathlib.Path(sys.prefix, line[len("# needs file: ") :])
                if not path.exists():
                    pytest.exit(
                        f"skipped: no {path} (FA_TEST_TORCH=1 bindings/python/environment.sh fetches it)", returncode=77
                    )
            if line.startswith("# needs: "):
                for package in line[len("# needs: ") :].split(", "):
                    try:
                        importlib.import_module(package)
                    except ModuleNotFoundError:
                        pytest.exit(f"skipped: {package} is not installed (FA_TEST_TORCH=1 installs it)", returncode=77)

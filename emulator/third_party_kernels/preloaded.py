"""Python programs that need not import first: each is forked from a process that has imported their modules."""

import multiprocessing
import os
import pathlib
import runpy
import sys
import tempfile

MODULES = {
    "numba": ("numpy", "numba.cuda"),
    "triton": ("numpy", "cuda.bindings.driver", "triton"),
    "torch": ("torch", "triton"),
}
context = multiprocessing.get_context("forkserver")


def preload(families):
    """Imports the MODULES of these families before the first program runs. Runs share the code that numba compiles."""
    preload.numba = tempfile.TemporaryDirectory(prefix="third-party-")  # removed when this process ends
    os.environ["NUMBA_CACHE_DIR"] = preload.numba.name
    context.set_forkserver_preload([module for family in sorted(families) for module in MODULES.get(family, ())])


def script_of(command):
    """The script and its arguments, where the command runs it in this Python; else None."""
    words = [str(word) for word in command]
    return words[2:] if words[:2] == [sys.executable, "-B"] else None


def body(script, environment, output):
    """The work of a forked process."""
    os.environ.update(environment)
    with open(output, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = script
    sys.path.insert(0, str(pathlib.Path(script[0]).parent))
    runpy.run_path(script[0], run_name="__main__")


def run(script, environment, timeout):
    """Runs a script: its status, None where it has not ended by then, and its output."""
    with tempfile.NamedTemporaryFile(prefix="third-party-") as output:
        process = context.Process(target=body, args=(script, environment, output.name))
        process.start()
        process.join(timeout)
        status = process.exitcode
        if status is None:
            process.kill()
            process.join()
        return status, pathlib.Path(output.name).read_text(errors="replace")

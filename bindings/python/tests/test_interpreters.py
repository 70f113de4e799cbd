"""libfa in subinterpreters that share the GIL; those with a separate GIL refuse modules that do not declare support for it.
Runs in the process of test_attention.py."""

import subprocess
import sys
import textwrap

USE = """
    import ctypes
    import libfa
    from libfa import capi

    class Array:
        def __init__(self, rows, value):
            self.memory = (ctypes.c_float * (8 * rows))(*[value] * 8 * rows)
            self.__array_interface__ = dict(version=3, typestr="<f4", shape=(1, rows, 1, 8), data=(ctypes.addressof(self.memory), False))

    q, k, v, out = Array(2, 1.0), Array(3, 1.0), Array(3, 3.0), Array(2, 0.0)
    libfa.attention(q, k, v, out=out)
    assert list(out.memory) == [3.0] * 16
    try:
        libfa.attention(q, k, v, out=out, causal="left")
    except libfa.Error as error:
        assert "causal" in str(error), error
    else:
        raise AssertionError("not refused")
    try:
        capi.fa_set_log(None)
        print("logs")
    except RuntimeError as error:
        print(error)
"""
MAIN = """
    import sys
    try:
        import _interpreters as interpreters
        make, run = (lambda: interpreters.create("legacy")), interpreters.exec
    except ImportError:
        import _xxsubinterpreters as interpreters
        make, run = (lambda: interpreters.create(isolated=False)), interpreters.run_string

    exec(code)
    for _ in range(2):
        made = make()
        failure = run(made, code)
        assert failure is None, failure
        interpreters.destroy(made)
    exec(code)
    if hasattr(interpreters, "exec"):
        made = interpreters.create("isolated")
        print(run(made, "import libfa").msg)
        interpreters.destroy(made)
"""


def test_subinterpreters():
    program = f"code = {textwrap.dedent(USE)!r}\n{textwrap.dedent(MAIN)}"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    refused = "fa_set_log: called in a subinterpreter; call it in the main interpreter"
    isolated = ["module libfa._capi does not support loading in subinterpreters"] if sys.version_info >= (3, 13) else []
    assert done.stdout.splitlines() == ["logs", refused, refused, "logs", *isolated]

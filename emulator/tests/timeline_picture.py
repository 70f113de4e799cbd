"""tools/timeline reads what FA_EMU_TIMELINE wrote, and draws it where matplotlib is there.

Usage: timeline_picture.py TOOL PROGRAM [arguments]: the program launches kernels.
"""
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile

SKIPPED = 77


def main(tool, *program):
    loader = importlib.machinery.SourceFileLoader("timeline", tool)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("timeline", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder:
        trace, picture = os.path.join(folder, "trace.json"), os.path.join(folder, "picture.svg")
        subprocess.run(program, check=True, env={**os.environ, "FA_EMU_TIMELINE": trace})
        blocks = module.read(trace)
        assert blocks, "no blocks"
        for name, warps in blocks:
            assert ", launch " in name and ", block [" in name, name
            assert sorted(warps) == list(range(len(warps))), name
            for spans in warps.values():
                assert all(role in module.COLOURS and begin < end for role, _, begin, end in spans), spans
                inside = sorted((begin, end) for _, asynchronous, begin, end in spans if not asynchronous)
                assert all(a[1] <= b[0] for a, b in zip(inside, inside[1:])), "a warp does two things at once"
        drawn = subprocess.run([sys.executable, tool, trace, picture], capture_output=True, text=True)
        if "needs matplotlib" in drawn.stderr:
            print("the trace is right; no picture: no matplotlib")
            return SKIPPED
        assert drawn.returncode == 0, drawn.stderr
        with open(picture, encoding="utf-8") as file:
            assert "warp 0" in file.read() or os.path.getsize(picture) > 1000
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

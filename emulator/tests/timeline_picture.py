"""tools/timeline reads the file of FA_EMU_TIMELINE, and draws it.

Usage: timeline_picture.py TOOL PROGRAM [arguments]: the program launches kernels.
"""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

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
        assert drawn.returncode == 0, drawn.stderr
        shown = blocks[:4]
        bars = {(name, warp, *span[:2]) for name, warps in shown for warp, spans in warps.items() for span in spans}
        with open(picture, encoding="utf-8") as file:
            svg = file.read()
        # A group for each role of each warp, and one for its asynchronous spans; those without spans are left out of the file or empty.
        drawn = len(re.findall(r'<g id="(?:Poly|FillBetweenPoly)Collection_\d+">\s*<(?!/)', svg))
        assert drawn == len(bars), f"{drawn} rows of bars are drawn, and {len(bars)} have spans"


if __name__ == "__main__":
    main(*sys.argv[1:])

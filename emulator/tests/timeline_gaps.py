"""tools/timeline lists the gaps between products: of a trace made by hand, and of one that FA_EMU_TIMELINE has made of a
kernel of three tiles.

Usage: timeline_gaps.py TOOL PROGRAM: the program's test Timeline.GapsBetweenTiles writes the trace that TEST_TRACE names.
"""
import json
import os
import subprocess
import sys
import tempfile


def listed(tool, trace, *options):
    done = subprocess.run([sys.executable, tool, trace, "--gaps", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def by_hand(tool, folder):
    """Two warps: of the block, nothing is in flight from 30 to 40, as the second warp's product lasts until 30, and from 60
    to 75; of warp 0 also from 20 to 40."""
    def product(warp, begin, end, line):
        return {"name": "mma", "cat": "product", "pid": 1, "tid": warp, "ph": "X", "ts": begin, "dur": end - begin,
                "args": {"ptx_line": line, "source": "", "instructions": 1}}

    lasting = {"name": "wgmma", "cat": "product", "pid": 1, "tid": 1, "id": 1}
    events = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "k, launch 1, block [0,0,0]"}},
              product(0, 10, 20, 5), product(0, 40, 60, 6), product(0, 75, 80, 5),
              lasting | {"ph": "b", "ts": 12, "args": {"ptx_line": 9, "source": "a.cu:3", "instructions": 1}}, lasting | {"ph": "e", "ts": 30}]
    trace = os.path.join(folder, "hand.json")
    with open(trace, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)
    lines = listed(tool, trace)
    assert lines[0] == "k, launch 1, block [0,0,0]: products from 10 to 80, 35.7 % of it without one", lines
    assert lines[2].split(None, 4) == ["1", "15.0", "15", "15", "6 to 5"], lines
    assert lines[3].split(None, 4) == ["1", "10.0", "10", "10", "9 (a.cu:3) to 6"], lines
    lines = listed(tool, trace, "--warps", "--to", "60")
    assert [line.split(None, 4) for line in lines[2:3]] == [["1", "20.0", "20", "20", "5 to 6"]] and len(lines) == 5, lines


def by_the_emulator(tool, program, folder):
    """Each of three tiles has two turns of two products, five instructions apart, and 120 instructions follow."""
    trace = os.path.join(folder, "trace.json")
    subprocess.run([program, "--gtest_filter=Timeline.GapsBetweenTiles"], check=True, env={**os.environ, "TEST_TRACE": trace})
    between = [line.split(None, 4) for line in listed(tool, trace)[2:]]
    times, mean, longest = int(between[0][0]), float(between[0][1]), int(between[0][2])
    assert times == 2 and mean == longest and 120 <= longest <= 130, between
    assert all(float(one[1]) < 20 for one in between[1:]) and sum(int(one[0]) for one in between[1:]) > 5, between


def refusals(tool):
    for options in (["trace.json"], ["trace.json", "picture.svg", "--gaps"], ["trace.json", "picture.svg", "--warps"]):
        done = subprocess.run([sys.executable, tool, *options], capture_output=True, text=True)
        assert done.returncode == 2 and "or --gaps" in done.stderr, done.stderr


def main(tool, program):
    with tempfile.TemporaryDirectory() as folder:
        by_hand(tool, folder)
        by_the_emulator(tool, program, folder)
    refusals(tool)


if __name__ == "__main__":
    main(*sys.argv[1:])

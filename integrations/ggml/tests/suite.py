"""ggml's own test-backend-ops, compiled alone and linked to the stock libraries, on FLASH_ATTN_EXT through libggml-fa.so.

Usage: suite.py COMPILER LIBGGML_FA [all | PATTERN]; without a word, a tenth of the cases
"""
import collections
import os
import pathlib
import re
import subprocess
import sys

import stock

TENTH = r"kv=(17|64|96|113),nb=(1|2|75),"
TAKEN = {"f32", "f16", "bf16", "q8_0", "q4_0"}
COUNTS = {TENTH: (391, 148), "": (3956, 1352)}  # passed, and declined for a type of k or v, of the pinned version
CASE = re.compile(r"FLASH_ATTN_EXT\((.*)\): (.*)")


def compile_suite(compiler, versions):
    """test-backend-ops, kept with the packages: it takes minutes to compile."""
    sources, binaries = stock.fetch(*versions)
    program = sources.with_name("test-backend-ops")
    if not program.exists():
        partial = program.with_name(f"{program.name}.{os.getpid()}")
        command = [compiler, "-std=c++17", "-O1", f"-I{sources}/ggml/include", f"-I{sources}/ggml/src"]
        subprocess.run([*command, "-c", "-o", f"{partial}.o", sources / "tests/test-backend-ops.cpp"], check=True)
        link = [*command, "-o", partial, f"{partial}.o", *stock.libraries(binaries)[:2], "-Wl,-rpath,$ORIGIN/bin"]
        done = subprocess.run(link, capture_output=True, text=True)
        if done.returncode:  # the sources are newer than the binaries: other operations are not there
            missing = sorted(set(re.findall(r"undefined reference to `(ggml_\w+)'", done.stderr)))
            rest = "".join(f"extern \"C\" void {name}() {{ __builtin_trap(); }}\n" for name in missing)
            subprocess.run([*link, "-x", "c++", "-"], input=rest, text=True, check=True)
        pathlib.Path(f"{partial}.o").unlink()
        partial.rename(program)
    return program, binaries


def run(compiler, library, pattern, *versions):
    """The numbers of cases that passed, and that were declined."""
    program, binaries = compile_suite(compiler, versions)
    command = [program, "test", "-o", "FLASH_ATTN_EXT", "-b", "FA", *(["-p", pattern] if pattern else [])]
    environment = {**os.environ, "GGML_BACKEND_PATH": library}
    done = subprocess.run(command, cwd=binaries, capture_output=True, text=True, env=environment)
    output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    passed, declined, failed = collections.Counter(), collections.Counter(), []
    for case, verdict in CASE.findall(output):
        found = dict(re.findall(r"type_(K|V|KV)=(\w+)", case))  # KV: before 2026
        types = tuple(found.get(each, found.get("KV")) for each in "KV")
        if verdict.startswith("OK"):
            passed[types] += 1
        elif verdict.startswith("not supported"):
            declined[types] += 1
        else:
            failed.append(f"{case}: {verdict}")
    for name, counter in ("passed", passed), ("declined", declined):
        lines = [f"  k {k}, v {v}: {number}" for (k, v), number in sorted(counter.items())]
        print(f"{name}: {counter.total()}", *lines, sep="\n")
    assert not failed, "\n".join(failed)
    assert done.returncode == 0, f"test-backend-ops returned {done.returncode}:\n{output[-2000:]}{done.stderr[-2000:]}"
    wrongly = [types for types in declined if set(types) <= TAKEN]
    assert not wrongly, f"declined, but of types that are taken: {wrongly}"
    counts = passed.total(), declined.total()
    wanted = None if versions else COUNTS.get(pattern)
    assert wanted in (None, counts), f"expected {wanted} cases passed and declined"
    return counts


if __name__ == "__main__":
    word = "".join(sys.argv[3:])
    stock.or_skip(run, *sys.argv[1:3], {"": TENTH, "all": ""}.get(word, word))

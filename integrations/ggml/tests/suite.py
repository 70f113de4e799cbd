"""ggml's own test-backend-ops, compiled alone and linked to the stock libraries, on FLASH_ATTN_EXT through libggml-fa.so.

Usage: suite.py COMPILER LIBGGML_FA [all | PATTERN]; without a word, a tenth of the cases
"""
import collections
import os
import re
import subprocess
import sys

import stock

TENTH = r"kv=(17|64|96|113),nb=(1|2|75),"
TAKEN = {"f32", "f16", "bf16", "q8_0", "q4_0"}
COUNTS = {TENTH: (391, 148), "": (3956, 1352)}  # passed, and declined for a type of k or v, of the pinned version
CASE = re.compile(r"FLASH_ATTN_EXT\((.*)\): (.*)")


def compile_suite(compiler):
    """test-backend-ops, kept with the packages: it takes minutes to compile."""
    sources, binaries = stock.fetch()
    program = sources.with_name("test-backend-ops")
    if not program.exists():
        partial = program.with_name(f"{program.name}.{os.getpid()}")
        libraries = stock.libraries(binaries)[:2]
        subprocess.run([compiler, "-std=c++17", "-O1", f"-I{sources}/ggml/include", f"-I{sources}/ggml/src", "-o", partial,
                        sources / "tests/test-backend-ops.cpp", *libraries, "-Wl,-rpath,$ORIGIN/bin"], check=True)
        partial.rename(program)
    return program, binaries


def run(compiler, library, pattern):
    program, binaries = compile_suite(compiler)
    command = [program, "test", "-o", "FLASH_ATTN_EXT", "-b", "FA", *(["-p", pattern] if pattern else [])]
    environment = {**os.environ, "GGML_BACKEND_PATH": library}
    done = subprocess.run(command, cwd=binaries, capture_output=True, text=True, env=environment)
    output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    passed, declined, failed = collections.Counter(), collections.Counter(), []
    for case, verdict in CASE.findall(output):
        types = dict(re.findall(r"type_([KV])=(\w+)", case))
        if verdict.startswith("OK"):
            passed[types["K"], types["V"]] += 1
        elif verdict.startswith("not supported"):
            declined[types["K"], types["V"]] += 1
        else:
            failed.append(f"{case}: {verdict}")
    for name, counter in ("passed", passed), ("declined", declined):
        lines = [f"  k {k}, v {v}: {number}" for (k, v), number in sorted(counter.items())]
        print(f"{name}: {counter.total()}", *lines, sep="\n")
    assert not failed, "\n".join(failed)
    assert done.returncode == 0, f"test-backend-ops returned {done.returncode}:\n{output[-2000:]}{done.stderr[-2000:]}"
    wrongly = [types for types in declined if set(types) <= TAKEN]
    assert not wrongly, f"declined, but of types that are taken: {wrongly}"
    wanted = COUNTS.get(pattern)
    assert wanted in (None, (passed.total(), declined.total())), f"expected {wanted} cases passed and declined"


if __name__ == "__main__":
    word = "".join(sys.argv[3:])
    stock.or_skip(run, *sys.argv[1:3], {"": TENTH, "all": ""}.get(word, word))

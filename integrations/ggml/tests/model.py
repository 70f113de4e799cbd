"""Models through stock llama.cpp, with the backend and without: the same greedy tokens, or two as likely where they part.

Usage: model.py CC LIBGGML_FA FOLDER; FOLDER is for what is made here
"""
import os
import pathlib
import subprocess
import sys

import numpy as np

import models
import stock

TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "q4_0": 2}
PROMPT, STEPS = 200, 16
# For logits whose deviation is 1. ggml's flash attention rounds q and weights to f16, or q to q8_0 for quantised keys. Its other
# path with f32 keys and values does not: f16 caches are compared with that.
LIMIT_F16, LIMIT_QUANTISED, LIMIT_PARTED = 4e-3, 0.1, 1e-3


def compile_decode(compiler, folder):
    sources, binaries = stock.fetch()
    program = pathlib.Path(folder) / "decode"
    source = pathlib.Path(__file__).with_name("decode.c")
    subprocess.run([compiler, "-O1", "-D_GNU_SOURCE", f"-I{sources}/include", f"-I{sources}/ggml/include", source, "-o",
                    program, *stock.libraries(binaries), f"-Wl,-rpath,{binaries}"], check=True)
    return program


class Run:
    def __init__(self, program, library, model, flash, cache, prompt=PROMPT, steps=STEPS, threads=1):
        logits = program.with_name("logits.bin")
        environment = {**os.environ, "FA_VERBOSE": "1"}
        if library:
            environment["GGML_BACKEND_PATH"] = library
        words = [program, stock.fetch()[1], model, prompt, steps, threads, int(flash), TYPES[cache], TYPES[cache], logits]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{words}: {done.returncode}: {done.stderr}"
        assert "attention is left to ggml" not in done.stderr, done.stderr
        times, tokens = done.stdout.splitlines()[-2:]
        self.prompt, self.steps, self.prompt_processor, self.steps_processor = map(float, times.split())
        self.tokens = list(map(int, tokens.split()))
        self.logits = np.fromfile(logits, np.float32).reshape(steps, -1)
        self.used = done.stderr.count(" chosen") > 1  # an op that shows that libfa can, and one that does


def compare(name, cache, program, library, model):
    plain, ours = (Run(program, each, model, True, cache) for each in (None, library))
    assert ours.used and not plain.used, f"{name}: libfa computed {'both' if plain.used else 'nothing'}"
    same = next((i for i, pair in enumerate(zip(plain.tokens, ours.tokens)) if pair[0] != pair[1]), STEPS)
    until = min(same + 1, STEPS)  # behind the first other token the two go on from other texts
    exact = Run(program, None, model, False, "f32") if cache == "f16" else plain
    errors = [np.abs(exact.logits[:until] - each.logits[:until]).max() for each in (plain, ours)]
    print(f"{name}, {cache}: {same} of {STEPS} tokens the same; logits: libfa within {errors[1]:.2g}",
          f"of exact ones, ggml within {errors[0]:.2g}" if cache == "f16" else "of ggml's", flush=True)
    assert errors[1] <= (LIMIT_F16 if cache == "f16" else LIMIT_QUANTISED), f"{name}, {cache}: logits differ by {errors[1]}"
    if same < STEPS:
        first, second = np.sort(plain.logits[same])[:-3:-1]
        assert first - second <= max(errors[1], LIMIT_PARTED), f"{name}, {cache}: other tokens from step {same} on"


def main(compiler, library, folder):
    program = compile_decode(compiler, folder)
    for name, shape in models.SHAPES.items():
        model = pathlib.Path(folder) / f"{name}.gguf"
        models.write(shape, model)
        for cache in ("f16", "q8_0") if name == "llama" else ("f16",):
            compare(name, cache, program, library, model)
        model.unlink()


if __name__ == "__main__":
    stock.or_skip(main, *sys.argv[1:])

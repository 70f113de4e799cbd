"""Prompts and decoding of a layer of Llama 3.2 1B's shape, by stock llama.cpp and with the backend, in turns: medians.

Usage: speed.py CC LIBGGML_FA FOLDER PROMPTS CACHES [THREADS [TURNS]]; lists with commas, as 512,2048 and f16,q8_0

With one thread seconds are the processor's, which other programs change little; with more they are those of the clock.
"""
import pathlib
import statistics
import sys

import numpy as np

import model
import models

SHAPE = models.Shape("llama", layers=1, width=2048, heads=32, kv_heads=8, dim=64, inner=8192)
STEPS = 32


def measure(program, library, file, prompt, cache, threads, turns):
    quantised = cache.startswith("q")
    ways = {"ggml, without flash attention": (None, False), "ggml, flash attention": (None, True), "libfa": (library, True)}
    if quantised:  # llama.cpp has no other attention for quantised values
        ways.pop("ggml, without flash attention")
    seconds = {way: ([], []) for way in ways}
    for _ in range(turns):
        for way, (backend, flash) in ways.items():
            run = model.Run(program, backend, file, flash, cache, prompt, STEPS, threads)
            assert run.used == (backend is not None), way
            pair = (run.prompt_processor, run.steps_processor) if threads == 1 else (run.prompt, run.steps)
            for each, value in zip(seconds[way], pair):
                each.append(value)
    medians = {way: [statistics.median(each) for each in both] for way, both in seconds.items()}
    best = [min(both[i] for way, both in medians.items() if way != "libfa") for i in (0, 1)]
    for way, both in medians.items():
        spread = [max(each) / min(each) for each in seconds[way]]
        print(f"{cache}, {prompt} tokens, {threads} threads, {way}:",
              f"prompt {prompt / both[0]:.0f} tokens/s ({best[0] / both[0]:.2f}x, spread {spread[0]:.2f}),",
              f"decode there {STEPS / both[1]:.1f} ({best[1] / both[1]:.2f}x, spread {spread[1]:.2f})", flush=True)


def main(compiler, library, folder, prompts, caches, threads="1", turns="3"):
    program = model.compile_decode(compiler, folder)
    file = pathlib.Path(folder) / "layer.gguf"
    models.write(SHAPE, file, dtype=np.float16)
    for prompt in map(int, prompts.split(",")):
        for cache in caches.split(","):
            measure(program, library, file, prompt, cache, int(threads), int(turns))
    file.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])

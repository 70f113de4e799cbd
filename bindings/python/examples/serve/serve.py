"""Serves several requests at once, as an inference server does, on libfa alone: continuous batching, a paged cache of 8-bit codes,
pages of a common prefix computed once, drafts verified as trees. Every token is compared with that of a naive program.

python serve.py [--model FOLDER] [--save FOLDER] [--requests N] [--tokens N] [--pages N] [--branches N]
"""

import argparse
import sys
import time
from pathlib import Path

import model as llama
import naive
from engine import Engine, Request
from pages import OutOfPages


def requests(count: int, tokens: int, vocabulary: int) -> list[Request]:
    """Prompts: a common instruction of 40 tokens, then some of each one's own."""
    instruction = [7 * i % vocabulary for i in range(40)]
    own = [[(101 * r + 13 * i * i) % vocabulary for i in range(3 + 7 * r)] for r in range(count)]
    return [Request(f"request {r}", instruction + own[r], tokens + 2 * r) for r in range(count)]


def model_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> llama.Model:
    """The model that the options ask for, saved where they say."""
    if not (options.model or options.save):
        return llama.Model.random()
    import package  # which alone needs safetensors

    try:
        model = package.read(options.model) if options.model else llama.Model.random()
        if options.save:
            package.write(model, options.save)
    except (package.BadPackage, OSError) as error:
        parser.error(str(error))
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", type=Path, metavar="FOLDER", help="of config.json and *.safetensors; default: random weights"
    )
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write the model there first")
    parser.add_argument("--requests", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--pages", type=int, default=40, help="of the cache; with few, requests wait for others (default: 40)")
    parser.add_argument("--branches", type=int, default=2, help="of each tree of drafts; 0: a token a step (default: 2)")
    options = parser.parse_args()

    model = model_of(parser, options)
    engine = Engine(model, options.pages, options.branches)
    coming = requests(options.requests, options.tokens, model.sizes.vocabulary)
    longest = max((len(request.prompt) + request.count for request in coming), default=0)
    if longest > model.sizes.max_position:
        parser.error(f"a text would have {longest} tokens; the model has {model.sizes.max_position} positions")
    engine.waiting = coming[: len(coming) // 2]
    late = coming[len(coming) // 2 :]
    start, generated, wrong = time.perf_counter(), 0, 0
    completed = []
    while late or not engine.idle:
        if late and (engine.idle or engine.statistics["steps"] % 3 == 2):
            engine.waiting.append(late.pop(0))
        try:
            completed += engine.step()
        except OutOfPages:
            parser.error(f"--pages: got {options.pages}, which are too few for one request")
    seconds = time.perf_counter() - start
    for request in sorted(completed, key=lambda request: request.name):
        print(f"{request.name}: {len(request.prompt)} + {len(request.tokens)} tokens:", *request.tokens[:12], "...")
        generated += len(request.tokens)
        expected = naive.best(model, request.text[:-1])[len(request.prompt) - 1 :]
        wrong += request.tokens != expected
        if request.tokens != expected:
            print("  expected:", *expected)
    print(", ".join(f"{name}: {number}" for name, number in engine.statistics.items()))
    print(f"{generated} tokens, {generated / seconds:.0f} a second")
    print("as the naive program has them" if not wrong else f"{wrong} requests differ from the naive program")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())

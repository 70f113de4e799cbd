"""The command line: perf/kernel-report --help."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

from . import (
    analysis, backward_report, blackwell, blackwell_text, choices, decode, emulator, images, ladder, latency, model, peers, plot, render, role_report,
    seldom, shapes, wgmma,
)  # fmt: skip
from .rates import GPUS

# (S, batch x heads, causal) of the shapes whose speed is modelled, by head dimension.
SHAPES = {64: [(512, 128, False), (16384, 32, False), (16384, 32, True)], 128: [(16384, 16, False), (16384, 16, True)]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kernel-report",
        description="The speed of the kernels by their SASS (perf/kernel-model.md). Nothing runs on a GPU.",
    )
    parser.add_argument("files", nargs="*", type=Path, help="sm_80.mma.bf16.128.fatbin and such, or .cubin; or a folder")
    parser.add_argument("--tools", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--entry", default="fa_forward_plain$", metavar="REGEX", help="entry points (default: %(default)s)")
    parser.add_argument("--emulated", type=Path, metavar="FILE", help="lines of FA_EMU_JSON of these kernels")
    parser.add_argument("--run", type=Path, metavar="BUILD", help="a build folder, whose fa the emulator is to count")
    parser.add_argument("--json", type=Path, metavar="FILE", help="as --schema has it")
    parser.add_argument("--plot", type=Path, metavar="FILE", help=".svg or .png")
    parser.add_argument("--schema", action="store_true", help="the JSON Schema of --json")
    parser.add_argument("--peers", action="store_true", help="the model held to the published figures of other kernels")
    parser.add_argument("--blackwell", action="store_true", help="kernels on tensor memory: FlashAttention-4's, and those among the files")
    parser.add_argument("--fa4-of", type=Path, metavar="FOLDER", help="FlashAttention-4's cubins (perf/kernel-model.md): read them again")
    parser.add_argument("--peers-of", type=Path, metavar="FOLDER", help="of perf/peers/peers: read those kernels again")
    parser.add_argument("--ladder", type=Path, metavar="FOLDER", help="of perf/ladder/ladder: the steps, each by the model")
    parser.add_argument("--latency", type=Path, metavar="BUILD", help="short decode of few heads: both launches, by the model")
    parser.add_argument("--shapes", type=Path, metavar="BUILD", help="calls that people make, on their boards, by the model")
    parser.add_argument("--choices", type=Path, metavar="BUILD", help="effects of changes to wgmma and tcgen05, by the model")
    parser.add_argument("--seldom", type=Path, metavar="BUILD", help="how often wgmma rescales weights, by the emulator")
    parser.add_argument("--backward", type=Path, metavar="BUILD", help="the backward pass: loops, calls, goals, by the model")
    parser.add_argument("--simulate", type=Path, metavar="BUILD", help="roles and their waits, event by event")
    parser.add_argument("--cxx", default="c++", metavar="COMPILER", help="of C++20, for the tiles' tables")
    result = parser.parse_args()
    reports = (
        result.peers, result.blackwell, result.fa4_of, result.schema, result.ladder, result.latency, result.shapes, result.choices,
        result.backward, result.seldom, result.simulate,
    )  # fmt: skip
    if not (result.files or any(reports)):
        parser.error("nothing to do: name fatbins (build/ci/kernels/*.fatbin), or --peers")
    return result


def images_of(args: argparse.Namespace) -> list[Path]:
    return [p for f in args.files for p in (sorted(f.glob("sm_*.fatbin")) if f.is_dir() else [f])]


def entries(args: argparse.Namespace) -> list[analysis.Entry]:
    paths = images_of(args)
    tiles = images.tiles(args.cxx) if paths else {}
    counted = emulator.counters(args.emulated) if args.emulated else {}
    result = []
    for path in paths:
        image = images.Image.of(path)
        if image is None:
            raise SystemExit(f"{path}: got this name, expected one like sm_80.mma.bf16.128.fatbin")
        if image.family == blackwell_text.FAMILY:
            continue  # --blackwell has its roles
        functions = images.functions(image.path, args.tools)
        if not functions:
            print(f"{path.name}: no machine code, left out\n")
        for function in functions:
            tile = tiles.get((image.family, image.sm, image.dim, function.name))
            if tile is None or not re.search(args.entry, function.name):
                continue
            if image.family == "wgmma" and function.name == "fa_forward_score_mod":
                its = (analysis.analyse(image, function, tile, feature=feature) for feature in wgmma.FEATURES)
                result += [entry for entry in its if entry]
                continue
            entry = analysis.analyse(image, function, tile, function.name == "fa_forward_decode")
            if entry is None:
                print(f"{path.name}: {function.name}: no tensor-core loop, left out\n")
                continue
            entry.emulated = counted.get(function.name, {})
            if args.run and function.name == "fa_forward_plain" and image.dim in emulator.PREFILL:
                (launch,) = emulator.call(args.run, image.kernel, image.dtype, emulator.PREFILL[image.dim], 1)
                entry.emulated = emulator.figures(launch)
            for s, heads, causal in SHAPES.get(image.dim, []) if function.name == "fa_forward_plain" else []:
                if entry.iteration and entry.gpu:
                    name = f"S={s} D={image.dim}, batch x heads = {heads}, {'causal' if causal else 'full'}"
                    gpu = GPUS[entry.gpu]
                    entry.speeds[name] = model.teraflops(entry.iteration, gpu, s, image.dim, heads, causal)
                    if gpu.capped:
                        slowed = replace(gpu, sustained=gpu.capped)
                        entry.capped[name] = model.teraflops(entry.iteration, slowed, s, image.dim, heads, causal)
            result.append(entry)
    return result


def decodes(args: argparse.Namespace, found: list[analysis.Entry]) -> list[decode.Decode]:
    if not args.run:
        return []
    few = [e for e in found if e.name == "fa_forward_decode" and e.gpu and e.blocks and e.image.dim in emulator.DECODE]
    return [decode.decode(args.run, e) for e in few]


def main() -> None:
    args = arguments()
    if args.schema:
        print(Path(__file__).with_name("schema.json").read_text(), end="")
    if args.peers_of:
        peers.write(peers.read(args.peers_of, args.tools))
    if args.peers:
        print(render.peers())
    if args.ladder:
        print(ladder.text(args.ladder, args.tools, args.cxx), end="")
    if args.latency:
        print(latency.text(args.latency, args.tools, args.cxx), end="")
    if args.shapes:
        print(shapes.text(args.shapes, args.tools, args.cxx), end="")
    if args.choices:
        print(choices.text(args.choices, args.tools, args.cxx), end="")
    if args.seldom:
        print(seldom.text(args.seldom, args.tools, args.cxx), end="")
    if args.simulate:
        print(role_report.text(args.simulate, args.tools, args.cxx), end="")
    if args.fa4_of:
        blackwell.write(blackwell.read_all(args.fa4_of, args.tools))
    if args.blackwell:
        print(blackwell_text.text(images_of(args), args.tools, args.cxx), end="")
        return
    found = entries(args)
    decoded = decodes(args, found)
    if found:
        print(render.text(found, decoded), end="\n" if args.backward else "")
    if args.backward:
        print(backward_report.text(args.backward, args.tools, args.cxx), end="")
    if args.json:
        render.write_json(found, decoded, args.json)
    if args.plot:
        plot.plot([e for e in found if e.name == "fa_forward_plain" and e.image.dim in SHAPES], args.plot)


main()

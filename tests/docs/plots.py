"""plots.py SOURCE: the bars of scripts/docs/plots.py have every number of their file and its circumstances, and the speeds of an H200 that
docs/performance.md and perf/gpu-results.md print are those of bench/results."""

import html
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "scripts" / "docs"))
import plots  # noqa: E402

page = (source / "docs" / "performance.md").read_text()
files = re.findall(r"^<!-- plot: (\S+) -->$", page, re.M)
wrong = [] if len(files) > 2 else ["docs/performance.md has no plots"]
bars = 0
for file in files:
    rows, unit, circumstances = plots.read(file)
    drawn = plots.plot(file)
    wrong += [f"{file}: its bars do not say {word}" for word in (unit, *circumstances, file) if html.escape(word) not in drawn]
    numbers = [f"{number:.0f}" for _, series in rows for number in series.values()]
    bars += len(numbers)
    if re.findall(r">(\d+)</text>", drawn) != numbers or drawn.count(f'height="{plots.BAR}" fill') < len(numbers):
        wrong.append(f"{file}: its bars are not its numbers")

forward = dict(plots.read("bench/results/nvidia-h200/session.json")[0])
backward = dict(plots.read("bench/results/nvidia-h200/gradients.json")[0])


def compare(where, shape, printed, measured):
    """The printed speed of libfa, and how many times as fast it is as cuDNN and FlashAttention-2."""
    if shape not in measured:
        wrong.append(f"{where}: {shape} is not in bench/results")
        return
    own, *others = measured[shape].values()
    expected = [f"{own:.0f}", *(own / other for other in others)]
    said = [printed[0], *map(float, printed[1:])]
    if said[0] != expected[0] or len(said) > len(expected) or any(abs(a - b) > 0.0101 for a, b in zip(said[1:], expected[1:])):
        wrong.append(f"{where}: {shape} has {said}, expected {expected}")


CELL = r"(\d+) \(([\d.]+), ([\d.]+)\)"
for name, measured in (("forward", forward), ("backward", backward)):
    found = re.search(rf"^\| {name} \| {CELL} \| {CELL} \|$", page, re.M)
    if found is None:
        wrong.append(f"docs/performance.md has no row of an H200: {name}")
        continue
    compare("docs/performance.md", "2 x 64/8 x 8192/8192 x 128", found.groups()[:3], measured)
    compare("docs/performance.md", "2 x 64/8 x 8192/8192 x 128, causal", found.groups()[3:], measured)

rows = 0
results = (source / "perf" / "gpu-results.md").read_text()
for part, measured in (("| forward | libfa", forward), ("| backward, in any order", backward)):
    table = results[results.index(part) :].split("\n\n")[0]
    for shape, *cells in re.findall(r"^\| (\d[^|]*?) \|([^|]*)\|([^|]*)\|([^|]*)\|$", table, re.M):
        rows += 1
        each = [cell.strip().split(", ") for cell in cells if cell.strip()]
        compare("perf/gpu-results.md", shape.removesuffix(", full and causal"), [cell[0] for cell in each], measured)
        if shape.endswith("causal"):
            causal = shape.removesuffix(", full and causal") + ", causal"
            compare("perf/gpu-results.md", causal, [cell[1] for cell in each], measured)
if rows < 9:
    wrong.append(f"perf/gpu-results.md has {rows} rows")
if wrong:
    sys.exit("\n".join(wrong))
print(f"{bars} bars, {rows} rows")

"""The kernels' goals on a card: shapes with targets, next to torch's backends in the same run and next to figures that
others have published, each with its source. gpu_sdpa.py --sweep goals measures them."""
import typing

from gpu.calls import Shape

FRONTEND = "NVIDIA's cudnn-frontend"  # its files of results: perf/kernel-model.md
AUTHORS = "its authors, 16384 rows"
TOKENS = 16384  # of a prefill
PEERS = ("cudnn", "flash")  # of torch's backends, in the same run


class Target(typing.NamedTuple):
    """value() of the shape's entry is to be `least` or more, or `most` or less. card: a part of the only GPU's name that it
    holds for."""

    of: str  # one of PEERS: times as fast; "TFLOP/s"; "us"; "of the copy"; "times one query": the time of the shape in other
    least: float = None
    most: float = None
    other: Shape = None
    card: str = ""

    def __str__(self):
        bound = f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"
        return f"{bound} x {self.of}" if self.of in PEERS else f"{bound} {self.of}"


class Published(typing.NamedTuple):
    card: str
    what: str
    figure: str
    source: str

    def __str__(self):
        return f"{self.what} {self.figure} ({self.card}, {self.source})"


class Goal(typing.NamedTuple):
    shape: Shape
    targets: list
    published: list = []


def prefill(rows, dim, causal, dim_v=0):
    """At 8k tokens the shape that others publish."""
    batch, heads, kv_heads = (2, 64, 8) if rows == 8192 else (max(TOKENS // rows, 1), 2048 // dim, 2048 // dim)
    return Shape(batch, heads, kv_heads, rows, rows, dim, "bf16", causal, dim_v)


def decode(batch, queries, keys, page=0):
    return Shape(batch, 64, 8, queries, keys, 128, "bf16", False, page=page)


def forward():
    # TFLOP/s of cuDNN 9.27 and FlashAttention-4: torch's flash backend is FlashAttention-2.
    anchors = {False: (701, 756), True: (655, 675)}
    for rows in (8192, 16384, 32768, 2048):
        for causal in (False, True):
            targets = [Target("cudnn", least=1.2 if rows == 2048 else 1.08)] if rows > 2048 or causal else []
            published = []
            if rows == 8192:
                cudnn, fa4 = anchors[causal]
                targets.append(Target("TFLOP/s", least=fa4))
                published = [Published("H200", "cuDNN 9.27", f"{cudnn} TFLOP/s", FRONTEND),
                             Published("H200", "FlashAttention-4", f"{fa4} TFLOP/s", FRONTEND)]
            yield Goal(prefill(rows, 128, causal), targets, published)
    for dim, dim_v, least in ((64, 0, 1.1), (256, 0, None), (192, 128, None)):
        for causal in (False, True):
            yield Goal(prefill(8192, dim, causal, dim_v), [Target("cudnn", least=least)] if least else [])


def few_rows():
    """Fewer tiles of queries than multiprocessors, over long keys: a chunk of a prefill, and video diffusion."""
    for heads, kv_heads, rows, keys, least, published in (
            (8, 1, 256, 131072, 450, {"cuDNN 9.27": 80}), (16, 2, 256, 131072, 520, {}),
            (9, 9, 1024, 62208, 600, {"cuDNN 9.27": 408, "FlashAttention-4": 460}), (40, 8, 512, 65536, None, {})):
        shape = Shape(1, heads, kv_heads, rows, keys, 128, "bf16", False)
        targets = [Target("TFLOP/s", least=least, card="H200")] if least else []
        yield Goal(shape, targets, [Published("H200", what, f"{figure} TFLOP/s", FRONTEND) for what, figure in published.items()])


def decodes():
    for batch, keys, targets, published in (
            (1, 1024, [Target("us", most=7)], []),
            (8, 8192, [Target("of the copy", least=0.9)], [Published("H200", "cuDNN", "78 % of the copy", FRONTEND)])):
        one = decode(batch, 1, keys)
        yield Goal(one, targets, published)
        yield Goal(decode(batch, 8, keys), [Target("times one query", most=1.15, other=one)])
    for page in (16, 64):
        yield Goal(decode(8, 1, 8192, page), [Target("of the copy", least=0.9)])


def backward():
    # Causal, full. FlashAttention-2 and cuDNN are summed in any order, then in a fixed one.
    of_a100 = {"any": {"FlashAttention-2": (173, 178), "cuDNN": (136, 142)}, "fixed": {"FlashAttention-2": (96, 95), "cuDNN": (133, 133)}}
    of_pro = {"any": {"cuDNN": (248, 288), "open source": (337, 352), "FlashAttention-4": (278, 285)},
              "fixed": {"cuDNN": (262, 260), "open source": (289, 276)}}
    of_h200 = {"any": {"cuDNN 9.27": (526, 562), "FlashAttention-4": (629, 656)},
               "fixed": {"cuDNN 9.27": (463, 489), "FlashAttention-4": (555, 608)}}
    of_h100 = {(128, False): {"FlashAttention-2 with forward": 338, "FlashAttention-3": 561},
               (128, True): {"FlashAttention-2 with forward": 328}, (64, False): {"FlashAttention-3": 474}}
    # On Hopper libfa's kernels use mma.sync, as FlashAttention-2's do, which torch's flash backend runs: the model gives 1.14 times
    # its speed at 128 columns, and knows no loop of 64. 330 is its authors' figure, and more than the model gives either
    # (276 and 316). The others use wgmma, and are there to compare with.
    least = {"any": (180, 350, 330, 330), "fixed": (150, 300, 280, 280)}
    for dim in (128, 64):
        for causal in (False, True):
            for order in ("fixed", "any"):
                targets, published = [], []
                if dim == 128:
                    cards = ("A100", "RTX PRO 6000", "H100", "H200")
                    targets = [Target("TFLOP/s", least=value, card=card) for value, card in zip(least[order], cards)]
                    published = [Published(card, what, f"{pair[0 if causal else 1]} TFLOP/s", FRONTEND)
                                 for card, figures in (("A100", of_a100), ("RTX PRO 6000", of_pro), ("H200", of_h200))
                                 for what, pair in figures[order].items()]
                targets += [Target("flash", least=1.1 if dim == 128 else 1, card=card) for card in ("H100", "H200")]
                if order == "any":
                    published += [Published("H100", what, f"{figure} TFLOP/s", AUTHORS)
                                  for what, figure in of_h100.get((dim, causal), {}).items()]
                shape = prefill(8192, dim, causal)
                yield Goal(shape._replace(gradients=order), targets, published)


def goals():
    """The most telling shapes first."""
    return [*forward(), *few_rows(), *decodes(), *backward()]


def value(target, entry, entries, ceiling):
    """Its measured figure; None where a part of it was not measured."""
    ours = entry["contenders"].get("libfa", {})
    if "ms" not in ours:
        return None
    if target.of == "us":
        return ours["ms"] * 1e3
    if target.of == "TFLOP/s":
        return ours["TFLOPs"]
    if target.of == "of the copy":
        return ours["TBs"] / ceiling["copy_TBs"] if ceiling.get("copy_TBs") else None
    if target.of == "times one query":
        other = entries.get(str(target.other), {}).get("contenders", {}).get("libfa", {})
        return ours["ms"] / other["ms"] if "ms" in other else None
    peer = entry["contenders"].get(target.of, {})
    return peer["ms"] / ours["ms"] if "ms" in peer else None


def judged(entries, ceiling, gpu):
    """A row for each target that holds for this GPU, and for each shape without one: the measured figure, and whether it is met."""
    of_shape = {entry["shape"]: entry for entry in entries}
    rows = []
    for goal in goals():
        entry = of_shape.get(str(goal.shape))
        for target in [one for one in goal.targets if one.card in gpu] or [None]:
            row = {"shape": str(goal.shape), "goal": str(target) if target else "", "published": [str(one) for one in goal.published]}
            found = value(target, entry, of_shape, ceiling) if target and entry else None
            row["measured"] = found
            if target is None:
                row["verdict"] = "no goal" if entry else "not measured"
            elif found is None:
                row["verdict"] = "not measured"
            else:
                reached = found >= target.least if target.least is not None else found <= target.most
                row["verdict"] = "reached" if reached else "missed"
            contenders = entry["contenders"] if entry else {}
            rows.append({**row, "ms": {name: facts["ms"] for name, facts in contenders.items() if "ms" in facts}})
    return rows


def table(rows):
    lines = ["| goals | ms | goal | measured | verdict | published |", "|---|---|---|---|---|---|"]
    for row in rows:
        ms = ", ".join(f"{name} {value:.4f}" for name, value in row["ms"].items())
        found = "" if row["measured"] is None else f"{row['measured']:.3g}"
        lines.append(f"| {row['shape']} | {ms} | {row['goal']} | {found} | {row['verdict']} | {'; '.join(row['published'])} |")
    return lines

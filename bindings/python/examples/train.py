"""Trains a small character model twice from one start, with libfa's attention and with plain operations of torch, and prints both
losses. The text is Python's own help, so nothing is fetched. Needs torch; the plot needs matplotlib.

python train.py [--steps N] [--plot FILE]     about a minute on two cores
"""

import argparse
import pydoc_data.topics
import time

import torch
import torch.nn.functional as F

import libfa.torch

WIDTH, LAYERS, HEADS, KV_HEADS, LENGTH, BATCH = 128, 2, 4, 2, 128, 16
DIM = WIDTH // HEADS


def eager(q, k, v):
    """(batch, sequence, heads, dim), causal, operation by operation: all scores are stored."""
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / DIM**0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.einsum("bhij,bjhd->bihd", scores.masked_fill(later, float("-inf")).softmax(-1), v)


def fused(q, k, v):
    return libfa.torch.attention(q, k, v, causal=True)


class Layer(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norm, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * DIM)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.qkv(self.norm(x)).unflatten(-1, (-1, DIM))
        q, k, v = heads.split([HEADS, KV_HEADS, KV_HEADS], 2)  # views: libfa reads them where they are
        x = x + self.out(self.attention(q, k, v).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self, characters, attention):
        super().__init__()
        self.characters = torch.nn.Embedding(characters, WIDTH)
        self.positions = torch.nn.Embedding(LENGTH, WIDTH)
        self.layers = torch.nn.Sequential(*(Layer(attention) for _ in range(LAYERS)))
        self.head = torch.nn.Linear(WIDTH, characters)

    def forward(self, ids):
        return self.head(self.layers(self.characters(ids) + self.positions.weight[: ids.shape[1]]))


def train(attention, ids, steps):
    """The loss of each step, and seconds."""
    torch.manual_seed(1)
    model = Model(int(ids.max()) + 1, attention)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses, start = [], time.perf_counter()
    for _ in range(steps):
        at = torch.randint(len(ids) - LENGTH, (BATCH, 1)) + torch.arange(LENGTH + 1)
        batch = ids[at]
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - start


def draw(losses, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
    for (name, values), style in zip(losses.items(), ({"linewidth": 3, "alpha": 0.4}, {"linewidth": 1})):
        axes.plot(range(1, len(values) + 1), values, label=name, **style)
    axes.set(xlabel="step", ylabel="loss (nats per character)")
    axes.legend()
    figure.savefig(path)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--plot", metavar="FILE", help="draw both curves: .png, .svg, .pdf")
options = parser.parse_args()
if options.steps < 1:
    parser.error(f"--steps: got {options.steps}, expected at least 1")

text = "\n".join(body for _, body in sorted(pydoc_data.topics.topics.items()))
place = {character: i for i, character in enumerate(sorted(set(text)))}
ids = torch.tensor([place[character] for character in text])
print(f"{len(text)} characters of {len(place)} kinds; {LAYERS} layers, {HEADS} heads over {KV_HEADS}, {LENGTH} positions")
runs = {"eager": train(eager, ids, options.steps), "libfa": train(fused, ids, options.steps)}
losses = {name: values for name, (values, _) in runs.items()}

print(f"{'step':>6} {'eager':>8} {'libfa':>8} {'difference':>11}")
for step in sorted({1, options.steps, *range(options.steps // 6, options.steps, max(options.steps // 6, 1))} - {0}):
    a, b = losses["eager"][step - 1], losses["libfa"][step - 1]
    print(f"{step:6} {a:8.4f} {b:8.4f} {b - a:11.1e}")
for name, (_, seconds) in runs.items():
    print(f"{name}: {seconds / options.steps * 1e3:.0f} ms a step")
difference = max(abs(a - b) for a, b in zip(*losses.values()))
print(f"largest difference: {difference:.1e}")
assert difference < 0.05, "the two curves differ"
if options.plot:
    draw(losses, options.plot)
    print(f"drawn: {options.plot}")

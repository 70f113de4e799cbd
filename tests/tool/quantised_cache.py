"""Appends to a quantised cache and attends it, as a person does with the tool, compared with NumPy: quantised_cache.py FA"""

import pathlib
import subprocess
import sys
import tempfile

import numpy

BATCH, HEADS, KV_HEADS, DIM, ROWS, TOKENS = 2, 4, 2, 64, 32, (11, 1, 3)


def fa(*arguments):
    subprocess.run([sys.argv[1], *map(str, arguments)], check=True, stdout=subprocess.PIPE)


def softmax_attention(q, k, v):
    """Causal, the last query seeing the last key, of one sequence in float64."""
    k, v = (numpy.repeat(x, HEADS // KV_HEADS, axis=1) for x in (k, v))
    scores = numpy.einsum("ihd,jhd->hij", q, k) / numpy.sqrt(DIM)
    places = numpy.arange(len(k) - len(q), len(k))
    scores[:, places[:, None] < numpy.arange(len(k))] = -numpy.inf
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return numpy.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v)


def rotated(x, first):
    """GPT-NeoX's rotary embedding of rows from position `first` on."""
    angles = (first + numpy.arange(len(x)))[:, None] * 100.0 ** -(numpy.arange(DIM // 2) * 2 / DIM)
    cos, sin = numpy.cos(angles)[:, None], numpy.sin(angles)[:, None]
    a, b = x[..., : DIM // 2], x[..., DIM // 2 :]
    return numpy.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def quantised(x):
    """int8 with a scale for each row and head, and back."""
    scale = numpy.abs(x).max(-1, keepdims=True) / 127
    return numpy.rint(x / scale) * scale


def check(folder):
    random = numpy.random.default_rng(0)
    names = iter(range(1000))

    def saved(array):
        path = folder / f"{next(names)}.npy"
        numpy.save(path, array)
        return path

    angles = numpy.arange(ROWS)[:, None] * 100.0 ** -(numpy.arange(DIM // 2) * 2 / DIM)
    rotary = ["--rotary-cos", saved(numpy.cos(angles)), "--rotary-sin", saved(numpy.sin(angles))]
    cache = {name: folder / f"{name}.npy" for name in ("k-cache", "v-cache", "k-scale", "v-scale")}
    files = [word for name, path in cache.items() for word in (f"--{name}", path)]
    exact_k, exact_v = (numpy.zeros((BATCH, 0, KV_HEADS, DIM)) for _ in "kv")
    first = 0
    for tokens in TOKENS:
        q = random.standard_normal((BATCH, tokens, HEADS, DIM)).astype("float32")
        k, v = (random.standard_normal((BATCH, tokens, KV_HEADS, DIM)).astype("float32") for _ in "kv")
        new = ["--new-cache", f"{BATCH},{ROWS}", "--dtype-kv", "int8"] if first == 0 else []
        places = ["--cache-seqlens", saved(numpy.full(BATCH, first))]
        turned = folder / "q_out.npy"
        fa("append", "--k", saved(k), "--v", saved(v), "--q", saved(q), "--q-out", turned, *new, *files, *places, *rotary,
           "--compute-scales")  # fmt: skip
        out, used = folder / "out.npy", saved(numpy.full(BATCH, first + tokens))
        fa("run", "--q", turned, "--k", cache["k-cache"], "--v", cache["v-cache"], "--k-scale", cache["k-scale"], "--v-scale",
           cache["v-scale"], "--seqused-k", used, "--causal", "-o", out)  # fmt: skip

        exact_k = numpy.concatenate([exact_k, numpy.stack([rotated(x.astype(float), first) for x in k])], 1)
        exact_v = numpy.concatenate([exact_v, v], 1)
        for b, got in enumerate(numpy.load(out)):
            turned_q = rotated(q[b].astype(float), first)
            # A number half way between two codes may go to either.
            error = numpy.abs(got - softmax_attention(turned_q, quantised(exact_k[b]), quantised(exact_v[b]))).max()
            assert error < 2e-3, f"{error} from attention over numbers that NumPy quantised"
            error = numpy.abs(got - softmax_attention(turned_q, exact_k[b], exact_v[b])).max()
            assert 1e-4 < error < 0.05, f"{error} from attention over the numbers themselves"
        first += tokens
    codes, scales = numpy.load(cache["k-cache"]), numpy.load(cache["k-scale"])
    assert (codes.dtype, codes.shape) == ("int8", (BATCH, ROWS, KV_HEADS, DIM))
    assert (numpy.abs(codes[:, :first].astype(int)).max(-1) == 127).all() and not codes[:, first:].any()
    assert numpy.abs(codes[:, :first] * scales[:, :first] - exact_k).max() < scales.max() * 0.501


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        check(pathlib.Path(made))

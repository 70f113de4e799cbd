"""Trees of new tokens against torch's scaled_dot_product_attention with a boolean mask, and against NumPy in float64."""

import numpy
import pytest

import libfa

RANDOM = numpy.random.default_rng(11)


def random_tree(tokens):
    """(bits, depth): a row of booleans a token, true for its ancestors and itself; most parents are recent."""
    bits, depth = numpy.zeros((tokens, tokens), bool), numpy.zeros(tokens, "int32")
    for i in range(tokens):
        parent = int(RANDOM.integers(max(-1, i - 6), i)) if i else -1
        if parent >= 0:
            bits[i], depth[i] = bits[parent], depth[parent] + 1
        bits[i, i] = True
    return bits, depth


def words(bits):
    """Booleans as int32 words along the last axis, the first one in the lowest bit."""
    padding = [(0, 0)] * (bits.ndim - 1) + [(0, -bits.shape[-1] % 32)]
    return numpy.packbits(numpy.pad(bits, padding), axis=-1, bitorder="little").view("int32")


def arrays(batch, tokens, keys, heads=4, kv_heads=2, dim=32):
    def normal(*shape):
        return RANDOM.standard_normal(shape).astype("float32")

    return normal(batch, tokens, heads, dim), normal(batch, keys, kv_heads, dim), normal(batch, keys, kv_heads, dim)


@pytest.mark.parametrize("tokens", [1, 5, 8, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("prefix", [0, 3, 200, 3000])
def test_torch_with_a_boolean_mask(tokens, prefix):
    torch = pytest.importorskip("torch", reason="torch is missing")
    q, k, v = arrays(2, tokens, prefix + tokens)
    bits = numpy.stack([random_tree(tokens)[0] for _ in range(8)]).reshape(2, 4, tokens, tokens)
    mask = numpy.concatenate([numpy.ones((2, 4, tokens, prefix), bool), bits], axis=-1)

    def rows(x):
        return torch.from_numpy(numpy.repeat(x, 4 // x.shape[2], axis=2)).transpose(1, 2)

    expected = torch.nn.functional.scaled_dot_product_attention(rows(q), rows(k), rows(v), attn_mask=torch.from_numpy(mask))
    found = libfa.attention(q, k, v, causal=True, tree_mask=words(bits))
    numpy.testing.assert_allclose(found, expected.transpose(1, 2).numpy(), atol=2e-6)


def exact(q, k, v, bits, depth, window, slopes):
    """In float64, of one sequence."""
    tokens, prefix = len(q), len(k) - len(q)
    at = numpy.concatenate([numpy.arange(prefix), prefix + depth])  # where each key is
    p = prefix + depth
    mask = numpy.concatenate([numpy.ones((tokens, prefix), bool), bits], axis=1)
    mask &= (at >= p[:, None] - window) & (at <= p[:, None])
    out = numpy.zeros((tokens, q.shape[1], v.shape[2]))
    for h in range(q.shape[1]):
        kv = h * k.shape[1] // q.shape[1]
        x = q[:, h].astype("float64") @ k[:, kv].astype("float64").T / q.shape[2] ** 0.5
        x -= slopes[h] * numpy.abs(p[:, None] - at)
        x = numpy.where(mask, x, -numpy.inf)
        weights = numpy.exp(x - x.max(axis=1, keepdims=True))
        out[:, h] = weights / weights.sum(axis=1, keepdims=True) @ v[:, kv].astype("float64")
    return out


@pytest.mark.parametrize("tokens", [3, 40, 70])
@pytest.mark.parametrize("window", [2, 30, 500])
def test_numpy_with_depths(tokens, window):
    q, k, v = arrays(1, tokens, tokens + 90)
    bits, depth = random_tree(tokens)
    slopes = numpy.array([0.5, 0.25, 0.125, 0], "float32")
    options = {"causal": True, "window": (window, 0), "alibi_slopes": slopes}
    found = libfa.attention(q, k, v, tree_mask=words(bits), tree_depth=depth, **options)
    numpy.testing.assert_allclose(found[0], exact(q[0], k[0], v[0], bits, depth, window, slopes), atol=2e-6)


def test_ragged_trees():
    """Trees of a packed batch, whose words have room for its largest tree and anything behind a smaller one's."""
    lengths, prefixes = [7, 1, 40, 33], [20, 100, 3, 0]
    trees = [random_tree(n) for n in lengths]
    bits = numpy.ones((sum(lengths), 64), bool)
    for row, n, (tree, _) in zip(numpy.cumsum([0, *lengths]), lengths, trees):
        bits[row : row + n, :n] = tree
    q, k, v = arrays(1, sum(lengths), sum(lengths) + sum(prefixes))
    cu_q = numpy.cumsum([0, *lengths]).astype("int32")
    cu_k = numpy.cumsum([0, *(n + m for n, m in zip(lengths, prefixes))]).astype("int32")
    found = libfa.attention(
        q[0], k[0], v[0], causal=True, cu_seqlens_q=cu_q, cu_seqlens_k=cu_k, max_seqlen_q=40, tree_mask=words(bits)
    )
    for i, (tree, _) in enumerate(trees):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        places = numpy.arange(lengths[i])
        expected = exact(q[0, rows], k[0, keys], v[0, keys], tree, places, 10**6, numpy.zeros(4))
        numpy.testing.assert_allclose(found[rows], expected, atol=2e-6)


@pytest.mark.parametrize("tokens", [1, 8, 50])
def test_a_path_is_causal_attention_bit_for_bit(tokens):
    q, k, v = arrays(2, tokens, tokens + 300)
    path = words(numpy.tri(tokens, dtype=bool))
    found = libfa.attention(q, k, v, causal=True, tree_mask=path, tree_depth=numpy.arange(tokens, dtype="int32"))
    numpy.testing.assert_array_equal(found, libfa.attention(q, k, v, causal=True))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"tree_mask": numpy.zeros((3, 1), "int32")}, "tree_mask with causal False"),
        ({"causal": True, "tree_depth": numpy.zeros(3, "int32")}, "tree_depth without tree_mask"),
        ({"causal": True, "tree_mask": numpy.zeros((3, 2), "int32")}, "tree_mask has 2 words; expected 1"),
        ({"causal": True, "tree_mask": numpy.zeros((4, 1), "int32")}, "tree_mask has 4 queries; q has 3"),
        ({"causal": True, "tree_mask": numpy.zeros((3, 1), bool)}, "tree_mask has dtype bool; expected int32"),
        ({"causal": True, "tree_mask": numpy.zeros(3, "int32")}, r"tree_mask: got shape \(3,\), expected"),
        (
            {"causal": True, "tree_mask": numpy.zeros((3, 1), "int32"), "tree_depth": numpy.array([0, 1, 3], "int32")},
            r"tree_depth\[0\]\[2\] is 3",
        ),
    ],
)
def test_errors(given, text):
    q, k, v = arrays(1, 3, 9)
    with pytest.raises(libfa.InvalidArgument, match=text):
        libfa.attention(q, k, v, **given)

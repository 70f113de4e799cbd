"""libfa.flash_attn against the same mathematics in double precision, on numpy."""

import inspect

import numpy as np
import pytest
import reference

import libfa
from libfa import flash_attn as fa

RNG = np.random.default_rng(1)
Q = RNG.standard_normal((2, 9, 4, 16)).astype("f4")
K, V = (RNG.standard_normal((2, 21, 2, 16)).astype("f4") for _ in "kv")
SLOPES = RNG.random(4).astype("f4")
NEAR = 2e-6


def error(out, want):
    return abs(out - want).max()


@pytest.mark.parametrize(
    "given",
    [
        {},
        dict(causal=True),
        dict(window_size=(3, 2)),
        dict(causal=True, window_size=(5, 0), softcap=2.0),
        dict(softmax_scale=0.4, alibi_slopes=SLOPES),
    ],
    ids=str,
)
def test_flash_attn_func(given):
    renamed = {"window_size": "window", "softmax_scale": "scale", "alibi_slopes": "slopes"}
    want, _ = reference.attention(Q, K, V, **{renamed.get(name, name): value for name, value in given.items()})
    assert error(fa.flash_attn_func(Q, K, V, **given), want) < NEAR
    assert error(fa.flash_attn_kvpacked_func(Q, np.stack([K, V], 2), **given), want) < NEAR


def test_packed():
    qkv = RNG.standard_normal((2, 9, 3, 4, 16)).astype("f4")
    want, _ = reference.attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], causal=True)
    assert error(fa.flash_attn_qkvpacked_func(qkv, causal=True), want) < NEAR
    ends = np.array([0, 9, 18], "i4")
    out = fa.flash_attn_varlen_qkvpacked_func(qkv.reshape(18, 3, 4, 16), ends, 9, causal=True)
    assert error(out.reshape(want.shape), want) < NEAR


def test_varlen():
    ends_q, ends_k = np.array([0, 4, 9], "i4"), np.array([0, 13, 21], "i4")
    q, k, v = Q[0], K[0], V[0]
    out = fa.flash_attn_varlen_func(q, k, v, ends_q, ends_k, 5, 13, causal=True)
    packed = fa.flash_attn_varlen_kvpacked_func(q, np.stack([k, v], 1), ends_q, ends_k, 5, 13, causal=True)
    assert out.shape == q.shape and (out == packed).all()
    for b in range(2):
        rows, keys = slice(*ends_q[b : b + 2]), slice(*ends_k[b : b + 2])
        want, _ = reference.attention(q[None, rows], k[None, keys], v[None, keys], causal=True)
        assert error(out[rows], want[0]) < NEAR


def test_varlen_of_pages():
    pages, table = paged(np.stack([K, V]), 4)
    ends_q, ends_k = np.array([0, 9, 18], "i4"), np.array([0, 21, 38], "i4")
    out = fa.flash_attn_varlen_func(Q.reshape(18, 4, 16), *pages, ends_q, ends_k, 9, 21, causal=True, block_table=table)
    for b, used in enumerate((21, 17)):
        want, _ = reference.attention(Q[b : b + 1], K[b : b + 1, :used], V[b : b + 1, :used], causal=True)
        assert error(out[9 * b : 9 * b + 9], want[0]) < NEAR


def paged(caches, size):
    """Caches (n, batch, length, heads, dim) cut into pages, in a shuffled order, with one spare page a sequence."""
    n, batch, length, heads, dim = caches.shape
    count = -(-length // size) + 1
    order = RNG.permutation(batch * count).astype("i4").reshape(batch, count)
    whole = np.zeros((n, batch, count * size, heads, dim), caches.dtype)
    whole[:, :, :length] = caches
    pages = np.zeros((n, batch * count, size, heads, dim), caches.dtype)
    pages[:, order.reshape(-1)] = whole.reshape(n, batch * count, size, heads, dim)
    return pages, order


def rotate(x, angles, first, interleaved):
    """x (rows, heads, dim) by the angles (positions, rotary dim / 2) of rows first, first + 1, ... as complex numbers."""
    half = angles.shape[1]
    turn = np.exp(1j * angles[first])[:, None]
    out = x.astype("f8").copy()
    if interleaved:
        pairs = out[..., 0 : 2 * half : 2] + 1j * out[..., 1 : 2 * half : 2]
        out[..., 0 : 2 * half : 2], out[..., 1 : 2 * half : 2] = (pairs * turn).real, (pairs * turn).imag
    else:
        pairs = out[..., :half] + 1j * out[..., half : 2 * half]
        out[..., :half], out[..., half : 2 * half] = (pairs * turn).real, (pairs * turn).imag
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("form", ["rows", "rows by index", "pages", "left padding", "one length"])
def test_with_kvcache(form, interleaved, causal):
    """Three new keys are rotated and appended, two queries attend the cache."""
    new = 3
    q = RNG.standard_normal((2, new, 4, 16)).astype("f4")
    k, v = (RNG.standard_normal((2, new, 2, 16)).astype("f4") for _ in "kv")
    caches = RNG.standard_normal((2, 2, 24, 2, 16)).astype("f4")
    used = np.array([5, 5] if form == "one length" else [5, 20], "i4")
    angles = RNG.standard_normal((40, 6))
    pad = np.array([2, 1], "i4") if form == "left padding" else np.zeros(2, "i4")

    given, held = {}, caches.copy()
    if form == "rows by index":
        given["cache_batch_idx"] = np.array([2, 0], "i4")
        held = np.zeros((2, 3, 24, 2, 16), "f4")
        held[:, [2, 0]] = caches
    if form == "pages":
        held, given["block_table"] = paged(caches, 8)
    if form == "left padding":
        given["cache_leftpad"] = pad
    out, lse = fa.flash_attn_with_kvcache(
        q,
        *held,
        k,
        v,
        np.cos(angles).astype("f4"),
        np.sin(angles).astype("f4"),
        5 if form == "one length" else used,
        causal=causal,
        rotary_interleaved=interleaved,
        return_softmax_lse=True,
        **given,
    )
    for b in range(2):
        rows = used[b] + np.arange(new)  # positions in the cache, padding included
        rotated_q = rotate(q[b], angles, rows if causal else np.full(new, used[b]), interleaved)
        keys = np.concatenate([caches[0, b, pad[b] : used[b]], rotate(k[b], angles, rows, interleaved)])
        values = np.concatenate([caches[1, b, pad[b] : used[b]], v[b]])
        want, want_lse = reference.attention(rotated_q[None], keys[None], values[None], causal=causal)
        assert error(out[b], want[0]) < 3e-6 and error(lse[b], want_lse[0]) < 1e-5


def test_the_cache_alone():
    used = np.array([3, 21], "i4")
    out = fa.flash_attn_with_kvcache(Q, K, V, cache_seqlens=used, causal=True, window_size=(4, 0), num_splits=2)
    for b in range(2):
        want, _ = reference.attention(
            Q[b : b + 1], K[b : b + 1, : used[b]], V[b : b + 1, : used[b]], causal=True, window=(4, 0)
        )
        assert error(out[b], want[0]) < NEAR
    assert error(fa.flash_attn_with_kvcache(Q, K, V), reference.attention(Q, K, V)[0]) < NEAR


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_return_attn_probs(dtype):
    """(out, softmax_lse, S_dmask): without dropout upstream's S_dmask is an empty tensor of q's type."""
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    qkv = np.stack([q, q, q], 2)
    ends_q, ends_k = np.array([0, 4, 9], "i4"), np.array([0, 13, 21], "i4")
    packed = (q[0], k[0], v[0], ends_q, ends_k, 5, 13)
    for function, given in (
        (fa.flash_attn_func, (q, k, v)),
        (fa.flash_attn_kvpacked_func, (q, np.stack([k, v], 2))),
        (fa.flash_attn_qkvpacked_func, (qkv,)),
        (fa.flash_attn_varlen_func, packed),
        (fa.flash_attn_varlen_kvpacked_func, (q[0], np.stack([k[0], v[0]], 1), *packed[3:])),
        (fa.flash_attn_varlen_qkvpacked_func, (qkv[0], ends_q, 5)),
    ):
        out, lse, probabilities = function(*given, causal=True, return_attn_probs=True)
        assert (out == function(*given, causal=True)).all()
        assert lse.shape == ((2, 4, 9) if out.ndim == 4 else (4, 9)) and lse.dtype == np.float32
        assert probabilities.shape == (0,) and probabilities.dtype == q.dtype
    lse = fa.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)[1]
    assert error(lse, reference.attention(q, k, v, causal=True)[1]) < 1e-5


def test_what_is_not_there():
    with pytest.raises(NotImplementedError, match="dropout_p"):
        fa.flash_attn_func(Q, K, V, dropout_p=0.1)
    with pytest.raises(ValueError, match="both or neither"):
        fa.flash_attn_with_kvcache(Q, K, V, k=K)
    with pytest.raises(ValueError, match="cache_seqlens"):
        fa.flash_attn_with_kvcache(Q, K, V, k=K, v=V)
    with pytest.raises(ValueError, match="cache_seqlens"):
        fa.flash_attn_with_kvcache(Q, K, V, k=K, v=V, rotary_cos=Q[0, :, 0], rotary_sin=Q[0, :, 0])
    with pytest.raises(ValueError, match="the cache holds 21"):
        fa.flash_attn_with_kvcache(Q, K, V, k=K[:, :2], v=V[:, :2], cache_seqlens=20)
    with pytest.raises(ValueError, match="rotary_sin"):
        fa.flash_attn_with_kvcache(Q, K, V, rotary_cos=K, cache_seqlens=2)
    with pytest.raises(libfa.InvalidArgument):
        fa.flash_attn_func(Q, K[..., :8], V)


def test_signatures():
    """flash_attn 2.8's, by name, order and default."""
    tail = ["softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic", "return_attn_probs"]
    sequences = ["cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"]
    want = {
        "flash_attn_func": ["q", "k", "v", "dropout_p", *tail],
        "flash_attn_kvpacked_func": ["q", "kv", "dropout_p", *tail],
        "flash_attn_qkvpacked_func": ["qkv", "dropout_p", *tail],
        "flash_attn_varlen_func": ["q", "k", "v", *sequences, "dropout_p", *tail, "block_table"],
        "flash_attn_varlen_kvpacked_func": ["q", "kv", *sequences, "dropout_p", *tail],
        "flash_attn_varlen_qkvpacked_func": ["qkv", "cu_seqlens", "max_seqlen", "dropout_p", *tail],
        "flash_attn_with_kvcache": (
            "q k_cache v_cache k v rotary_cos rotary_sin cache_seqlens cache_batch_idx cache_leftpad block_table "
            "softmax_scale causal window_size softcap rotary_interleaved alibi_slopes num_splits return_softmax_lse"
        ).split(),
    }
    defaults = dict(dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None)
    defaults.update(deterministic=False, return_attn_probs=False, block_table=None, rotary_interleaved=True, num_splits=0)
    for name, names in want.items():
        parameters = inspect.signature(getattr(fa, name)).parameters
        assert list(parameters) == names, name
        for key, parameter in parameters.items():
            if key in defaults:
                assert parameter.default == defaults[key], (name, key)

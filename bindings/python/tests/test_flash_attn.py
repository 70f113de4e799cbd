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


CACHE, VALUES, NEW = (np.zeros(shape, "f4") for shape in ((2, 8, 2, 16), (2, 8, 2, 16), (2, 3, 2, 16)))
TABLE, ENDS = np.array([[0], [1]], "i4"), np.array([0, 3, 6], "i4")
ANGLES = np.zeros((10, 8), "f4")
INTS = {n: np.full(2, n, "i4") for n in (-1, 2, 5, 9)}


def cached(**given):
    return lambda: fa.flash_attn_with_kvcache(Q[:, :1], CACHE, VALUES, **given)


def appended(**given):
    return cached(**{"k": NEW, "v": NEW, "cache_seqlens": INTS[2], **given})


def dense(**given):
    return lambda: fa.flash_attn_func(Q, K, V, **given)


REFUSED = {
    "pages too few": (cached(cache_seqlens=9, block_table=TABLE), "cache_seqlens[0] is 9", "block_table hold"),
    "pages too few to append": (
        appended(cache_seqlens=INTS[5] + 1, block_table=TABLE),
        "cache_seqlens[0] is 6: expected 0 .. 5, as the sequence has 3 new tokens and k_cache 8 rows for it",
    ),
    "a cache too short": (
        appended(cache_seqlens=INTS[9]),
        "cache_seqlens[0] is 9: expected 0 .. 5, as the sequence has 3 new tokens and k_cache 8 rows for it",
    ),
    "a negative length": (appended(cache_seqlens=INTS[-1]), "cache_seqlens[0] is -1: expected 0 .. 5"),
    "a length no int32 holds": (cached(cache_seqlens=2**31), "cache_seqlens: got 2147483648"),
    "lengths of other sequences": (appended(cache_seqlens=np.zeros(3, "i4")), "cache_seqlens: got shape (3,), expected (2,)"),
    "a row outside the cache": (appended(cache_batch_idx=INTS[2]), "cache_batch_idx[0] is 2: expected 0 .. 1, an entry of k_cache"),
    "a row outside the cache, nothing appended": (cached(cache_batch_idx=INTS[2]), "cache_batch_idx[0] is 2: expected 0 .. 1"),
    "a page outside the cache": (appended(block_table=TABLE + 1), "block_table[1][0] is 2: expected 0 .. 1, a page of k_cache"),
    "a negative page": (appended(block_table=TABLE - 1), "block_table[0][0] is -1: expected 0 .. 1, a page of k_cache"),
    "rows and pages": (appended(block_table=TABLE, cache_batch_idx=INTS[2]), "block_table with cache_batch_idx"),
    "new keys of other heads": (appended(k=NEW[:, :, :1]), "v has 2 heads; k has 1"),
    "fewer new values": (appended(v=NEW[:, :1]), "v has 1 key; k has 3"),
    "new keys of another type": (appended(k=NEW.astype("f2")), "k: got float16, expected k_cache's float32"),
    "angles too few": (
        appended(rotary_cos=ANGLES[:4], rotary_sin=ANGLES[:4]),
        "rotary_cos has 4 rows, but row 2 of k is at position 4",
    ),
    "angles too wide": (appended(rotary_cos=Q[0, :, 0], rotary_sin=Q[0, :, 0]), "rotary_cos has 16 pairs; expected 1 .. 8"),
    "no sines": (appended(rotary_cos=ANGLES), "rotary_cos: expected rotary_sin, k and v as well"),
    "new keys alone": (cached(k=NEW), "k and v: both or neither must be given"),
    "nowhere to append": (cached(k=NEW, v=NEW), "cache_seqlens: expected where k and v are to be written"),
    "padding of more than there is": (cached(cache_seqlens=2, cache_leftpad=INTS[5]), "cache_leftpad[0] is 5: expected 0 .. 2"),
    "another head dimension": (
        lambda: fa.flash_attn_with_kvcache(Q, CACHE[..., :8], CACHE),
        "k_cache has head dimension 8; q has 16",
    ),
    "a window of three": (dense(window_size=(1, 2, 3)), "window_size: got (1, 2, 3), expected (left, right)"),
    "slopes too few": (dense(alibi_slopes=SLOPES[:3]), "alibi_slopes has 3 heads; q has 4"),
    "packed in two": (
        lambda: fa.flash_attn_qkvpacked_func(np.stack([Q, Q], 2)),
        "qkv: got shape (2, 9, 2, 4, 16), expected (batch",
    ),
    "packed in one": (
        lambda: fa.flash_attn_kvpacked_func(Q, K),
        "kv: got shape (2, 21, 2, 16), expected (batch, sequence, 2, ",
    ),
    "packed doubles": (
        lambda: fa.flash_attn_kvpacked_func(Q, np.stack([K, V], 2).astype("f8")),
        "kv[:, :, 0]: got dtype float64",
    ),
    "lengths past the end": (
        lambda: fa.flash_attn_varlen_qkvpacked_func(np.stack([Q[0]] * 3, 1), np.array([0, 10], "i4"), 10),
        "cu_seqlens ends at 10, but qkv[:, 0] has only 9 rows",
    ),
    "packed sequences of too many pages": (
        lambda: fa.flash_attn_varlen_func(Q[0, :6], CACHE, CACHE, ENDS, 3 * ENDS, 3, 9, block_table=TABLE),
        "(cu_seqlens_k[1:] - cu_seqlens_k[:-1])[0] is 9",
        "block_table hold",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_errors_name_the_callers_arguments(what):
    call, *texts = REFUSED[what]
    with pytest.raises(libfa.InvalidArgument) as error:
        call()
    assert isinstance(error.value, RuntimeError), "flash_attn raises RuntimeError"
    for text in texts:
        assert text in str(error.value), str(error.value)
    assert not CACHE.any(), "refused, and yet the cache was written"


def test_what_is_no_number_is_a_type_error():
    for call, text in (
        (dense(window_size=4), "window_size: got 4"),
        (cached(cache_seqlens=1.5), "cache_seqlens: got 1.5, expected an integer"),
        (dense(softmax_scale="1"), "softmax_scale: got '1', expected a number"),
    ):
        with pytest.raises(TypeError) as error:
            call()
        assert text in str(error.value)


@pytest.mark.parametrize("way", [np.int32, np.int64, np.array], ids=["int32", "int64", "array"])
def test_numbers_of_numpy(way):
    given = dict(k=NEW, v=NEW, cache_seqlens=2, window_size=(4, 0))
    given_so = dict(k=NEW, v=NEW, cache_seqlens=way(2), window_size=(way(4), way(0)))
    caches = np.stack([K[:, :8], V[:, :8]])
    want = fa.flash_attn_with_kvcache(Q[:, :3], *caches.copy(), **given)
    assert (fa.flash_attn_with_kvcache(Q[:, :3], *caches.copy(), **given_so) == want).all()
    ends = np.array([0, 9], "i4")
    want = fa.flash_attn_varlen_func(Q[0], K[0], V[0], ends, ends, 9, 9)
    assert (fa.flash_attn_varlen_func(Q[0], K[0], V[0], ends, ends, way(9), way(9)) == want).all()


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

"""libfa.append and libfa.vllm against other implementations: transformers' rotary embeddings, flash_attn's definition of them,
and vLLM's loop over slots."""
# needs: torch, transformers

import numpy as np
import pytest
import torch
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as rotate_gptj
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate_llama

import libfa
from libfa import capi, flash_attn
from libfa.vllm import reshape_and_cache_flash

RNG = torch.Generator().manual_seed(5)
NEAR = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=RNG).to(dtype)


def tables(positions, pairs):
    angles = torch.outer(torch.arange(positions).float(), 10000.0 ** (-torch.arange(pairs) / pairs))
    return angles.cos(), angles.sin()


@pytest.mark.parametrize("dtype", list(NEAR))
@pytest.mark.parametrize("interleaved", [False, True], ids=["llama", "gptj"])
def test_rotary_embeddings_of_transformers(interleaved, dtype):
    k, v, q = normal(2, 5, 2, 32, dtype=dtype), normal(2, 5, 2, 24, dtype=dtype), normal(2, 5, 4, 32, dtype=dtype)
    caches = torch.zeros(2, 40, 2, 32, dtype=dtype), torch.zeros(2, 40, 2, 24, dtype=dtype)
    cos, sin = tables(64, 16)
    positions = torch.tensor([[3, 4, 5, 6, 7], [60, 1, 0, 33, 2]])
    used = torch.tensor([4, 30], dtype=torch.int32)
    rotated = libfa.append(
        k, v, *caches, q=q, rotary_cos=cos, rotary_sin=sin, positions=positions, cache_seqlens=used, rotary_interleaved=interleaved
    )
    c, s = cos[positions], sin[positions]
    if interleaved:
        want_q, want_k = (rotate_gptj(x.float(), s, c) for x in (q, k))
    else:
        want_q, want_k = rotate_llama(q.float(), k.float(), torch.cat([c, c], -1), torch.cat([s, s], -1), unsqueeze_dim=2)
    assert rotated.dtype == dtype and (rotated.float() - want_q).abs().max() < NEAR[dtype]
    for b in range(2):
        rows = slice(used[b], used[b] + 5)
        assert (caches[0][b, rows].float() - want_k[b]).abs().max() < NEAR[dtype]
        assert torch.equal(caches[1][b, rows], v[b])
        caches[0][b, rows], caches[1][b, rows] = 0, 0
    assert all((cache == 0).all() for cache in caches), "other rows were written"


def rotary_of_flash_attn(x, cos, sin, interleaved):
    """flash_attn.layers.rotary.apply_rotary_emb_torch's definition: cos and sin (rows, pairs), x (rows, heads, dim)."""
    width = 2 * cos.shape[-1]
    turned = x[..., :width]
    if interleaved:
        half = torch.stack([-turned[..., 1::2], turned[..., ::2]], -1).flatten(-2)
        c, s = (t.repeat_interleave(2, -1)[:, None] for t in (cos, sin))
    else:
        half = torch.cat([-turned[..., width // 2 :], turned[..., : width // 2]], -1)
        c, s = (t.repeat(1, 2)[:, None] for t in (cos, sin))
    return torch.cat([turned * c + half * s, x[..., width:]], -1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [(-1, -1), (3, 0)], ids=["open", "local"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_flash_attn_with_kvcache_rotates_as_flash_attn(interleaved, window, causal):
    """Without a causal mask and a window all queries are rotated by one position; there may be more queries than new keys."""
    q, k, v = normal(2, 4, 4, 16), normal(2, 3, 2, 16), normal(2, 3, 2, 16)
    caches = normal(2, 3, 24, 2, 16)
    cos, sin = tables(40, 6)
    used, rows = torch.tensor([5, 17], dtype=torch.int32), torch.tensor([2, 0], dtype=torch.int32)
    k_cache, v_cache = caches.clone()
    given = dict(causal=causal, window_size=window)
    out = flash_attn.flash_attn_with_kvcache(
        q, k_cache, v_cache, k, v, cos, sin, used, rows, rotary_interleaved=interleaved, **given
    )
    for b in range(2):
        places = used[b] + torch.arange(4 if causal or window != (-1, -1) else 1)
        rotated_q = rotary_of_flash_attn(q[b], cos[places].expand(4, -1), sin[places].expand(4, -1), interleaved)
        new = slice(used[b], used[b] + 3)
        keys, values = caches[0, rows[b], : used[b] + 3].clone(), caches[1, rows[b], : used[b] + 3].clone()
        keys[new], values[new] = rotary_of_flash_attn(k[b], cos[new], sin[new], interleaved), v[b]
        want = libfa.attention(rotated_q[None], keys[None], values[None], causal=causal, window=window)
        assert (out[b] - want[0]).abs().max() < 2e-6
        assert torch.allclose(k_cache[rows[b], new], keys[new], atol=1e-6)
    assert torch.equal(k_cache[1], caches[0, 1]), "the row that no sequence has"


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("heads_first", [False, True], ids=["NHD", "HND"])
def test_reshape_and_cache_of_vllm(heads_first, kind):
    """Its loop over tokens: a slot is page * page size + row, a negative one is skipped; keys may be padded."""
    key, value = normal(9, 2, 8, dtype=torch.float16), normal(9, 2, 8, dtype=torch.float16)
    slots = torch.tensor([5, 17, -1, 0, 6, 7, -3], dtype=kind)
    memory = normal(2, 6, 2, 4, 8, dtype=torch.float16) if heads_first else normal(2, 6, 4, 2, 8, dtype=torch.float16)
    caches = memory.transpose(2, 3) if heads_first else memory
    want = caches.clone()
    for i, slot in enumerate(slots.tolist()):
        if slot >= 0:
            want[0, slot // 4, slot % 4], want[1, slot // 4, slot % 4] = key[i], value[i]
    reshape_and_cache_flash(key, value, caches[0], caches[1], slots, "auto", torch.ones(1), torch.ones(1))
    assert torch.equal(caches, want)
    with pytest.raises(NotImplementedError, match="kv_cache_dtype: got 'nvfp4'"):
        reshape_and_cache_flash(key, value, caches[0], caches[1], slots, "nvfp4")
    with pytest.raises(libfa.InvalidArgument, match=r"slot_mapping\[0\]\[1\] is 24: expected at most 23"):
        reshape_and_cache_flash(key, value, caches[0], caches[1], torch.tensor([1, 24]))
    assert torch.equal(caches, want), "something was written"


def test_arrays_of_numpy_and_lists():
    k = np.arange(12, dtype="f4").reshape(3, 2, 2)  # three tokens of two packed sequences
    pages = np.zeros((4, 2, 2, 2), "f2")
    libfa.append(
        k, None, pages, None, block_table=np.array([[2, 0], [3, 1]], "i4"), cu_seqlens_new=[0, 1, 3], cache_seqlens=[2, 1]
    )
    want = np.zeros((4, 2, 2, 2), "f2")
    want[0, 0], want[3, 1], want[1, 0] = k
    assert (pages == want).all()


def test_an_op_of_its_own():
    new, cache = np.arange(8, dtype="f4").reshape(1, 2, 1, 4), np.zeros((1, 3, 1, 4), "f4")
    args = capi.fa_append_args()
    args.k = (new.ctypes.data, capi.FA_F32, new.shape, (8, 4, 4, 1))
    args.k_cache = (cache.ctypes.data, capi.FA_F32, cache.shape, (12, 4, 4, 1))
    with libfa.Op(dtype_q="float32", head_dim=4) as op:
        assert op.append_workspace_size(args) == 0
        op.append(args)
    np.testing.assert_array_equal(cache[:, :2], new)
    assert (cache[:, 2] == 0).all()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(positions=np.zeros((1, 3), "f4")), "positions: got dtype|positions has dtype float32"),
        (dict(positions=np.zeros((1, 3), "i2")), "positions: got dtype int16, expected int32 or int64"),
        (dict(k=np.zeros((1, 3, 2, 8), "i8")), "k: got dtype int64"),
        (dict(k=np.zeros((1, 3, 2, 4), "f4")), "k has head dimension 4; k_cache has 8"),
        (dict(v_cache=None), "v without v_cache"),
        (dict(k_cache=None), "k_cache: a NoneType is no array"),
        (dict(k=None), "k: a NoneType is no array"),
        (dict(slot_mapping=np.zeros((1, 3), "i8"), cache_seqlens=None), "rotary_cos with slot_mapping"),
        (dict(q_out=np.zeros((1, 3, 2, 8), "f4")), "q_out without q"),
        (dict(k_cache=np.zeros((9, 2, 8), "f4")), "k_cache: got shape"),
    ],
)
def test_refusals(changed, words):
    given = dict(k=np.zeros((1, 3, 2, 8), "f4"), v=np.zeros((1, 3, 2, 8), "f4"))
    given.update(k_cache=np.zeros((1, 9, 2, 8), "f4"), v_cache=np.zeros((1, 9, 2, 8), "f4"), cache_seqlens=[2])
    given.update(rotary_cos=np.zeros((9, 4), "f4"), rotary_sin=np.zeros((9, 4), "f4"))
    with pytest.raises((libfa.InvalidArgument, TypeError), match=words):
        libfa.append(**{**given, **changed})

"""libfa.xformers under xformers' own biases, against the masks that xformers makes of them, in double precision; gradients, too."""
# needs: torch, xformers

import inspect

import pytest
import torch
from xformers.ops import fmha
from xformers.ops.fmha import attn_bias as biases

import libfa
import libfa.xformers as ours

torch.set_num_threads(1)  # the suites run side by side
Q, K = [3, 5, 1], [4, 6, 2]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


BLOCKS = biases.BlockDiagonalMask.from_seqlens(Q, K)
BIASES = {
    "none": None,
    "tensor": random(1, 4, 9, 12, seed=8),
    "lower": biases.LowerTriangularMask(),
    "lower bottom right": biases.LowerTriangularFromBottomRightMask(),
    "lower bottom right local": biases.LowerTriangularFromBottomRightLocalAttentionMask(4),
    "lower with bias": biases.LowerTriangularMaskWithTensorBias(random(1, 4, 9, 12, seed=8)),
    "local": biases.LocalAttentionFromBottomRightMask(2, 1),
    "blocks": BLOCKS,
    "causal": BLOCKS.make_causal(),
    "causal bottom right": BLOCKS.make_causal_from_bottomright(),
    "causal local": BLOCKS.make_local_attention(2),
    "causal local bottom right": BLOCKS.make_local_attention_from_bottomright(2),
    "padded": biases.BlockDiagonalPaddedKeysMask.from_seqlens(Q, 4, [4, 3, 2]),
    "padded causal": biases.BlockDiagonalCausalWithOffsetPaddedKeysMask.from_seqlens(
        q_seqlen=Q, kv_padding=5, kv_seqlen=[3, 5, 2]
    ),
}


@pytest.mark.parametrize("name", BIASES)
def test_bias(name):
    bias = BIASES[name]
    keys = bias.k_seqinfo.seqstart_py[-1] if hasattr(bias, "k_seqinfo") else 12
    q, k, v = random(1, 9, 4, 8).requires_grad_(), *(random(1, keys, 4, 8, seed=seed).requires_grad_() for seed in (1, 2))
    made = bias.materialize((1, 4, 9, keys)) if hasattr(bias, "materialize") else bias
    scores = torch.einsum("bihd,bjhd->bhij", q.double(), k.double()) * 0.4 + (0 if made is None else made)
    want = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v.double())
    out, lse = ours.memory_efficient_attention_forward_requires_grad(q, k, v, bias, scale=0.4)
    torch.testing.assert_close(out.double(), want, rtol=0, atol=2e-6)
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=0, atol=2e-6)
    assert torch.equal(ours.memory_efficient_attention(q, k, v, bias, scale=0.4), out)
    weight = random(1, 9, 4, 8, seed=4)
    for mine, exact in zip(*(torch.autograd.grad((x * weight).sum(), (q, k, v)) for x in (out, want))):
        torch.testing.assert_close(mine, exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_groups(shared, monkeypatch):
    """Heads of a group that share keys have them once."""
    heads = []
    original = ours.attention
    monkeypatch.setattr(ours, "attention", lambda q, k, v, **more: heads.append(k.shape[2]) or original(q, k, v, **more))
    q = random(2, 5, 2, 3, 8)
    k, v = (random(2, 7, 2, 1 if shared else 3, 8, seed=seed).expand(2, 7, 2, 3, 8) for seed in (1, 2))
    out, lse = ours.memory_efficient_attention_partial(q, k, v)
    scores = torch.einsum("bighd,bjghd->bghij", q.double(), k.double()) * 8**-0.5
    want = torch.einsum("bghij,bjghd->bighd", scores.softmax(-1), v.double())
    torch.testing.assert_close(out.double(), want, rtol=0, atol=2e-6)
    torch.testing.assert_close(lse.double(), scores.logsumexp(-1), rtol=0, atol=2e-6)
    assert heads == [2 if shared else 6]
    parts = [ours.memory_efficient_attention_partial(q, k[:, part], v[:, part]) for part in (slice(0, 2), slice(2, 7))]
    merged, merged_lse = ours.merge_attentions(*zip(*parts))
    torch.testing.assert_close(merged, out)
    torch.testing.assert_close(merged_lse, lse)
    flat = [x[:, :, 0, 0] for x in (q, k, v)]
    torch.testing.assert_close(ours.memory_efficient_attention(*flat), out[:, :, 0, 0])


def test_it_has_xformers_arguments():
    for name in ("memory_efficient_attention", "memory_efficient_attention_partial", "merge_attentions"):
        mine, theirs = (inspect.signature(getattr(module, name)).parameters.values() for module in (ours, fmha))
        assert [(x.name, x.kind, x.default) for x in mine] == [(x.name, x.kind, x.default) for x in theirs]


def test_refused():
    q = random(1, 9, 4, 8)
    gappy = biases.BlockDiagonalGappyKeysMask.from_seqlens(q_seqlen=[9], kv_seqstarts=[0, 9], kv_seqlen=[4])
    with pytest.raises(
        libfa.Unsupported, match="attn_bias: got BlockDiagonalGappyKeysMask, expected None, a tensor, or one of Lower"
    ):
        ours.memory_efficient_attention(q, q, q, gappy)
    with pytest.raises(libfa.Unsupported, match="p: got 0.5, and libfa has no dropout"):
        ours.memory_efficient_attention(q, q, q, p=0.5)
    with pytest.raises(libfa.InvalidArgument, match="query: got batch size 2, expected 1 with a BlockDiagonalMask"):
        ours.memory_efficient_attention(*[random(2, 9, 4, 8)] * 3, BLOCKS)

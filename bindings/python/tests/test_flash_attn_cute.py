"""libfa.flash_attn_cute against attention in double precision: dense, packed and in pages, with gradients."""
# needs: torch

import pytest
import reference_torch
import torch

import libfa
from libfa.flash_attn_cute import flash_attn_func, flash_attn_varlen_func

torch.set_num_threads(1)  # the suites run side by side
CASES = {
    "plain": ({}, {}),
    "causal": (dict(causal=True), dict(causal=True)),
    "left": (dict(causal=True, window_size=(2, None)), dict(causal=True, window=(2, -1))),
    "both sides": (dict(window_size=(3, 1)), dict(window=(3, 1))),
    "0 to the right": (dict(window_size=(None, 0)), dict(causal=True)),
    "softcap, scale": (dict(softcap=1.5, softmax_scale=0.6), dict(softcap=1.5, scale=0.6)),
    "sink": (dict(learnable_sink=torch.tensor([0.5, -1.0, 2.0, 0.0])), dict(sinks=torch.tensor([0.5, -1.0, 2.0, 0.0]))),
}
Q, K = [3, 0, 5], [4, 2, 9]


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def offsets(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def require_close(got, want, tolerance=2e-6):
    torch.testing.assert_close(got.double(), want, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_dense(name):
    given, reference = CASES[name]
    q = random(2, 5, 4, 8).requires_grad_()
    k, v = (random(2, 9, 2, 8, seed=seed).requires_grad_() for seed in (1, 2))
    out, lse = flash_attn_func(q, k, v, **given)
    want, want_lse = reference_torch.attention(*(x.double() for x in (q, k, v)), **reference)
    require_close(out, want)
    require_close(lse, want_lse)
    weight = random(2, 5, 4, 8, seed=3)
    for mine, exact in zip(*(torch.autograd.grad((x * weight).sum(), (q, k, v)) for x in (out, want))):
        torch.testing.assert_close(mine, exact, rtol=0, atol=1e-5)
    with torch.no_grad():
        assert flash_attn_func(q, k, v, **given)[1] is None
        require_close(flash_attn_func(q, k, v, **given, return_lse=True)[1], want_lse)


@pytest.mark.parametrize("name", CASES)
def test_varlen(name):
    given, reference = CASES[name]
    q, k, v = random(sum(Q), 4, 8), random(sum(K), 2, 8, seed=1), random(sum(K), 2, 8, seed=2)
    used = torch.tensor([3, 2, 8]).int()
    shared = dict(cu_seqlens_q=offsets(Q), max_seqlen_q=5, seqused_k=used, return_lse=True, **given)
    out, lse = flash_attn_varlen_func(q, k, v, cu_seqlens_k=offsets(K), max_seqlen_k=9, **shared)
    parts = zip(q.split(Q), k.split(K), v.split(K), used.tolist())
    wants = [reference_torch.attention(*(x[None].double() for x in (a, b[:n], c[:n])), **reference) for a, b, c, n in parts]
    require_close(out, torch.cat([x[0][0] for x in wants]))
    require_close(lse, torch.cat([x[1][0] for x in wants], 1))
    pool = torch.full((2, 6, 4, 2, 8), torch.nan)
    table = torch.tensor([[4, 0, 0], [2, 0, 0], [1, 5, 3]]).int()
    for x, pages in zip((k, v), pool):
        for part, row in zip(x.split(K), table.tolist()):
            for place, token in enumerate(part):
                pages[row[place // 4], place % 4] = token
    paged, paged_lse = flash_attn_varlen_func(q, *pool, page_table=table, **shared)
    require_close(paged, out.double())
    require_close(paged_lse, lse.double())


def test_refused():
    q = random(1, 3, 2, 8)
    with pytest.raises(libfa.Unsupported, match="score_mod: got a function, expected None"):
        flash_attn_func(q, q, q, score_mod=lambda x: x)
    with pytest.raises(libfa.InvalidArgument, match="window_size: got -2, expected None"):
        flash_attn_func(q, q, q, window_size=(-2, None))
    with pytest.raises(libfa.InvalidArgument, match="learnable_sink has 3 heads; q has 2"):
        flash_attn_func(q, q, q, learnable_sink=torch.zeros(3))

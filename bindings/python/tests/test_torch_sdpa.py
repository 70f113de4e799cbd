"""torch's own attention by libfa, through torch's registry, against torch's kernel and double precision; varlen_attn against calls of one
sequence."""
# needs: torch

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import activate_flash_attention_impl, current_flash_attention_impl, restore_flash_attention_impl, varlen

import libfa
from libfa import fallback, torch_sdpa
from libfa.torch_varlen import varlen_attn, varlen_attn_out

torch.set_num_threads(1)  # the suites run side by side
UNITS = {torch.float32: 2**-19, torch.float16: 2**-9, torch.bfloat16: 2**-6}


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.fixture
def calls(monkeypatch):
    """The calls that reached libfa, "forward" or "backward", with libfa active."""
    found = []
    for name in ("attention", "backward"):
        original = getattr(torch_sdpa, f"_{name}")

        def counted(*given, name=name, original=original, **keywords):
            found.append(name)
            return original(*given, **keywords)

        monkeypatch.setattr(torch_sdpa, f"_{name}", counted)
    monkeypatch.setattr(torch_sdpa, "_LEAST", 0)
    activate_flash_attention_impl("libfa")
    assert current_flash_attention_impl() == "libfa"
    yield found
    if current_flash_attention_impl() == "libfa":
        restore_flash_attention_impl()


def step(q, k, v, **keywords):
    """(out, gradients)."""
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*inputs, **keywords)
    return out, *torch.autograd.grad((out * out).sum(), inputs)


MASK = random(2, 1, 33, 41, seed=5) > -0.5
MASK[0, 0, 3] = False  # a query that attends nothing
CASES = {
    "plain": {},
    "causal": dict(is_causal=True),
    "boolean": dict(attn_mask=MASK),
    "additive": dict(attn_mask=random(33, 41, seed=6)),
    "scale": dict(scale=0.3),
    "gqa": dict(enable_gqa=True),
}


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("name", CASES)
def test_registered(calls, name, dtype):
    keywords = dict(CASES[name])
    q = random(2, 4, 33, 16, dtype=dtype)
    k, v = (random(2, 2 if name == "gqa" else 4, 41, 16, dtype=dtype, seed=seed) for seed in (1, 2))
    if name == "additive":
        keywords["attn_mask"] = keywords["attn_mask"].to(dtype)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)  # as models have it
    got = step(q, k, v, **keywords)
    assert calls == ["attention", "backward"]
    restore_flash_attention_impl()
    torchs = step(q, k, v, **keywords)
    wide = {key: x.double() if key == "attn_mask" and x.dtype != torch.bool else x for key, x in keywords.items()}
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        exact = step(q.double(), k.double(), v.double(), **wide)
    assert calls == ["attention", "backward"] and got[0].stride() == torchs[0].stride()
    for mine, theirs, want in zip(got, torchs, exact):
        assert mine.dtype == dtype and mine.shape == theirs.shape
        want = want.nan_to_num()
        allowed = 2 * (theirs.nan_to_num().double() - want).abs().max() + UNITS[dtype] * want.abs().max()
        assert (mine.double() - want).abs().max() <= allowed


def test_a_transformer_learns_alike(calls):
    layer = torch.nn.TransformerDecoderLayer(32, 4, 48, dropout=0.0, batch_first=True)
    x, memory = random(2, 9, 32), random(2, 7, 32, seed=1)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(9)

    def gradients():
        layer.zero_grad()
        layer(x, memory, tgt_mask=causal, tgt_is_causal=True).square().sum().backward()
        return [parameter.grad.clone() for parameter in layer.parameters()]

    ours = gradients()
    assert calls.count("attention") == calls.count("backward") == 2
    restore_flash_attention_impl()
    for mine, theirs in zip(ours, gradients()):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_compiled(calls):
    """A graph that torch compiled calls libfa, too."""
    q = random(1, 2, 17, 8)
    compiled = torch.compile(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True) + 1, backend="aot_eager", fullgraph=True)
    got = compiled(q)
    assert calls == ["attention"]
    restore_flash_attention_impl()
    torch.testing.assert_close(got, F.scaled_dot_product_attention(q, q, q, is_causal=True) + 1)


def test_left_to_torch(calls, monkeypatch, capsys):
    """Calls that libfa lacks end in torch's kernel, and FA_VERBOSE says why, once."""
    monkeypatch.setattr(fallback, "_said", set())
    monkeypatch.setenv("FA_VERBOSE", "1")
    q, wide = random(1, 2, 5, 8), random(1, 2, 5, 600)
    for given in (q.double(), wide, wide):
        got = step(given, given, given)
        restore_flash_attention_impl()
        want = step(given, given, given)
        activate_flash_attention_impl("libfa")
        for a, b in zip(got, want):
            torch.testing.assert_close(a, b)
    assert not calls
    lines = [line for line in capsys.readouterr().err.splitlines() if "own kernel" in line]
    assert len(lines) == 2 and "float64" in lines[0] and "head dimension is 600" in lines[1]
    monkeypatch.setattr(torch_sdpa, "_LEAST", 1 << 20)
    F.scaled_dot_product_attention(q, q, q)
    assert not calls
    F.scaled_dot_product_attention(*[random(1, 2, 128, 64)] * 3)
    assert calls == ["attention"]


QUERIES, KEYS = [3, 5, 0, 7], [4, 9, 2, 7]


def offsets(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 1)])
def test_varlen(window):
    q = random(sum(QUERIES), 4, 8).requires_grad_()
    k, v = (random(sum(KEYS), 2, 8, seed=seed).requires_grad_() for seed in (1, 2))
    given = (offsets(QUERIES), offsets(KEYS), max(QUERIES), max(KEYS))
    keywords = dict(window_size=window, enable_gqa=True, scale=0.4)
    out, lse = varlen_attn(q, k, v, *given, return_aux=varlen.AuxRequest(lse=True), **keywords)
    wants, lses = [], []
    for one_q, one_k, one_v in zip(q.split(QUERIES), k.split(KEYS), v.split(KEYS)):
        distance = torch.arange(len(one_q))[:, None] + len(one_k) - len(one_q) - torch.arange(len(one_k))
        seen = (distance <= window[0] if window[0] >= 0 else distance > -99) & (distance >= -window[1] if window[1] >= 0 else distance > -99)
        one = [x.transpose(0, 1)[None].double() for x in (one_q, one_k, one_v)]
        wants.append(F.scaled_dot_product_attention(*one, attn_mask=seen, scale=0.4, enable_gqa=True)[0].transpose(0, 1))
        scores = one[0][0] @ one[1][0].repeat_interleave(2, 0).transpose(1, 2) * 0.4
        lses.append(scores.masked_fill(~seen, -torch.inf).logsumexp(-1))
    torch.testing.assert_close(out.double(), torch.cat(wants), rtol=0, atol=2e-6)
    torch.testing.assert_close(lse.double(), torch.cat(lses, 1), rtol=0, atol=2e-6)
    weight = random(*out.shape, seed=4)
    for got, want in zip(
        torch.autograd.grad((out * weight).sum(), (q, k, v)), torch.autograd.grad((torch.cat(wants) * weight).sum(), (q, k, v))
    ):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    result = torch.empty_like(out)
    assert varlen_attn_out(result, q, k, v, *given, **keywords) is result and torch.equal(result, out)


def test_varlen_in_pages():
    """Pages with the contents of packed keys give the same result; and every sequence has the bits that it has alone, with num_splits=1."""
    q, pool = random(4, 4, 8), random(2, 6, 4, 2, 8, seed=1)
    table, used = torch.tensor([[5, 0], [2, 3]]).int(), torch.tensor([7, 3]).int()
    paged = dict(seqused_k=used, block_table=table, enable_gqa=True, num_splits=1)
    got = varlen_attn(q, *pool, offsets([1, 3]), None, 3, 7, window_size=(-1, 0), **paged)
    packed = [torch.cat([x[table[i].long()].flatten(0, 1)[: used[i]] for i in (0, 1)]) for x in pool]
    torch.testing.assert_close(
        got, varlen_attn(q, *packed, offsets([1, 3]), offsets([7, 3]), 3, 7, window_size=(-1, 0), enable_gqa=True)
    )
    alone = varlen_attn(q[:1], *(x[:7] for x in packed), offsets([1]), offsets([7]), 1, 7, enable_gqa=True, num_splits=1)
    assert torch.equal(alone, got[:1])


def test_varlen_has_torchs_arguments():
    for mine, theirs in ((varlen_attn, varlen.varlen_attn), (varlen_attn_out, varlen.varlen_attn_out)):
        ours, torchs = (inspect.signature(function).parameters.values() for function in (mine, theirs))
        assert [(x.name, x.kind, x.default) for x in ours] == [(x.name, x.kind, x.default) for x in torchs]


def test_varlen_refuses():
    q, k = random(3, 4, 8), random(3, 2, 8)
    one = (offsets([3]), offsets([3]), 3, 3)
    with pytest.raises(libfa.InvalidArgument, match="key: got 2 heads, expected query's 4; enable_gqa=True"):
        varlen_attn(q, k, k, *one)
    with pytest.raises(libfa.InvalidArgument, match="seqused_k: got None"):
        varlen_attn(q, k[None], k[None], *one, enable_gqa=True, block_table=torch.zeros(1, 1).int())
    with pytest.raises(libfa.InvalidArgument, match="key has head dimension 7; query has 8"):
        varlen_attn(q, k[..., :7], k[..., :7], *one, enable_gqa=True)

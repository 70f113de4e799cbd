"""Gradients of libfa.torch and libfa.flash_attn against autograd of the mathematics in double precision, and the operators
under torch: opcheck, torch.compile, checkpoints, torch.func. Runs in the process of test_torch.py."""
# needs: torch

import importlib.util
import runpy

import pytest
import reference_torch
import torch
import torch.nn.functional as F
from conftest import SOURCE
from torch.utils.checkpoint import checkpoint

import libfa
import libfa.torch
from libfa import capi, flash_attn

GENERATOR = torch.Generator().manual_seed(3)
UNITS = {torch.float32: 2**-19, torch.float16: 2**-9, torch.bfloat16: 2**-6}


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=GENERATOR).to(dtype)


def leaves(dtype=torch.float32, rows=9, keys=21, dim_v=16):
    """q, k and v of four heads over two."""
    shapes = ((2, rows, 4, 16), (2, keys, 2, 16), (2, keys, 2, dim_v))
    return [randn(*shape, dtype=dtype).requires_grad_() for shape in shapes]


CASES = {
    "grouped heads": dict(),
    "causal": dict(causal=True, softmax_scale=0.4),
    "window and softcap": dict(causal=True, window=(5, 0), softcap=2.0),
    "bias per head": dict(bias=randn(4, 1, 21)),
    "bias, mask and sinks": dict(bias=randn(9, 21), mask=torch.rand(9, 21, generator=GENERATOR) < 0.7, sinks=randn(4)),
    "slopes and sinks": dict(alibi_slopes=torch.rand(4, generator=GENERATOR), sinks=randn(4), causal=True),
}
RENAMED = {"softmax_scale": "scale", "alibi_slopes": "slopes"}


def compare(found, exact, dtype):
    for x, want in zip(found, exact, strict=True):
        assert x.shape == want.shape and (x.double() - want).abs().max() <= UNITS[dtype] * want.abs().max()


def doubles(inputs):
    return [x.detach().double().requires_grad_() for x in inputs]


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("what", CASES)
def test_against_double_precision(what, dtype):
    given = CASES[what]
    named = {name: given[name].clone() for name in ("bias", "sinks") if name in given}
    named = {name: (x.to(dtype) if name == "bias" else x).requires_grad_() for name, x in named.items()}
    inputs = [*leaves(dtype, dim_v=24), *named.values()]
    dout = randn(24, 4, 9, 2, dtype=dtype).permute(3, 2, 1, 0)  # gradients come with any strides
    dlse = randn(2, 4, 1).expand(2, 4, 9)
    results = libfa.torch.attention(*inputs[:3], return_lse=True, **{**given, **named})
    found = torch.autograd.grad(results, inputs, (dout, dlse))
    assert all(x.dtype == y.dtype for x, y in zip(found, inputs))
    wide = doubles(inputs)
    given = {RENAMED.get(name, name): x for name, x in given.items()} | dict(zip(named, wide[3:]))
    exact = reference_torch.attention(*wide[:3], **given)
    compare(found, torch.autograd.grad(exact, wide, (dout.double(), dlse.double())), dtype)


ENDS = [torch.tensor(ends, dtype=torch.int32) for ends in ([0, 4, 9], [0, 13, 20])]


# By the packed inputs: the dense function, the varlen one, the shapes of their inputs, q, k and v of these.
FORMS = {
    "": (
        (flash_attn.flash_attn_func, flash_attn.flash_attn_varlen_func),
        [(2, 9, 4, 16), (2, 21, 2, 16), (2, 21, 2, 16)],
        lambda *inputs: inputs,
    ),
    "kv": (
        (flash_attn.flash_attn_kvpacked_func, flash_attn.flash_attn_varlen_kvpacked_func),
        [(2, 9, 4, 16), (2, 21, 2, 2, 16)],
        lambda q, kv: (q, *kv.unbind(2)),
    ),
    "qkv": (
        (flash_attn.flash_attn_qkvpacked_func, flash_attn.flash_attn_varlen_qkvpacked_func),
        [(2, 9, 3, 4, 16)],
        lambda qkv: qkv.unbind(2),
    ),
}


@pytest.mark.parametrize("packed", FORMS)
def test_flash_attn(packed):
    """Dense and varlen, in one tensor or three, with rows that no sequence uses."""
    (dense, varlen), shapes, parts = FORMS[packed]
    inputs = [randn(*shape, dtype=torch.float16).requires_grad_() for shape in shapes]
    wide = doubles(inputs)
    dout, dlse = randn(2, 9, 4, 16, dtype=torch.float16), randn(2, 4, 9)
    found = torch.autograd.grad(dense(*inputs, causal=True, return_attn_probs=True)[:2], inputs, (dout, dlse))
    exact = reference_torch.attention(*parts(*wide), causal=True)
    compare(found, torch.autograd.grad(exact, wide, (dout.double(), dlse.double())), torch.float16)

    ends = ENDS[:1] if packed == "qkv" else ENDS
    out = varlen(*(x[0] for x in inputs), *ends, *(int(end[-1]) for end in ends), causal=True)
    found = torch.autograd.grad(out, inputs, dout[0])
    exact = []
    for i in range(2):
        q, k, v = parts(*wide)
        rows, keys = (slice(*end[i : i + 2].tolist()) for end in (ends[0], ends[-1]))
        exact.append(reference_torch.attention(q[:1, rows], k[:1, keys], v[:1, keys], causal=True)[0])
    compare(found, torch.autograd.grad(torch.cat(exact, 1), wide, dout[:1].double()), torch.float16)


def test_scaled_dot_product_attention():
    """The gradients of broadcast inputs are sums."""
    q, k, v = randn(3, 2, 4, 9, 16), randn(2, 4, 21, 16), randn(3, 1, 4, 21, 8)
    inputs = [x.requires_grad_() for x in (q, k, v, randn(2, 1, 9, 21))]
    wide = doubles(inputs)
    out, exact = libfa.torch.scaled_dot_product_attention(*inputs), F.scaled_dot_product_attention(*wide)
    dout = randn(*out.shape)
    compare(torch.autograd.grad(out, inputs, dout), torch.autograd.grad(exact, wide, dout.double()), torch.float32)


@pytest.fixture
def calls(monkeypatch):
    """The views of each call of fa_backward, by name."""
    seen = []
    names = ("q", "k", "v", "out", "lse", "dout", "dq", "dk", "dv", "dbias", "dsinks")
    backward = capi.backward
    monkeypatch.setattr(
        capi, "backward", lambda op, views, *rest: seen.append(dict(zip(names, views))) or backward(op, views, *rest)
    )
    return seen


def test_only_what_is_needed(calls):
    q, k, v = leaves()
    inputs = dict(q=q, k=k, v=v, bias=randn(9, 21).requires_grad_(), sinks=randn(4).requires_grad_())
    every = torch.autograd.grad(libfa.torch.attention(**inputs).sum(), inputs.values())
    for needed in (["q"], ["v"], ["k", "bias"], ["sinks"]):
        given = {name: x if name in needed else x.detach() for name, x in inputs.items()}
        found = torch.autograd.grad(libfa.torch.attention(**given).sum(), [given[name] for name in needed])
        assert [name for name in inputs if calls[-1][f"d{name}"]] == needed
        assert all(torch.equal(x, every[list(inputs).index(name)]) for name, x in zip(needed, found))
    assert calls[0]["dk"][2] == tuple(k.shape) and calls[0]["k"][0] == k.data_ptr()  # nothing of q's number of heads
    assert calls[0]["dout"][3] == (0, 0, 0, 0)  # of sum(), never expanded
    (found,) = torch.autograd.grad(libfa.torch.attention(q, k, v, return_lse=True)[1].sum(), q)
    assert found.abs().max() > 0 and len(calls) == 6


# By their special property: how inputs are made of (batch, sequence, heads, dim), keywords, further tensors.
OPERATOR_CASES = {
    "heads first": (lambda x: x.transpose(1, 2), dict(layout="bhsd", causal="bottom_right", window_left=4), {}),
    "bias": (lambda x: x, dict(softcap=2.0, out_dtype=torch.float32), dict(bias=randn(9, 21).requires_grad_())),
    "packed": (lambda x: x[0], {}, dict(cu_seqlens_q=ENDS[0], cu_seqlens_k=ENDS[1])),
}


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # opcheck's own
@pytest.mark.parametrize("what", OPERATOR_CASES)
def test_opcheck(what):
    made, keywords, tensors = OPERATOR_CASES[what]
    inputs = [made(x).detach().requires_grad_() for x in leaves()]
    torch.library.opcheck(torch.ops.libfa.attention.default, tuple(inputs), {**tensors, **keywords})
    inputs = [x.detach() for x in inputs]
    tensors = {name: x.detach() for name, x in tensors.items()}
    keywords = {name: x for name, x in keywords.items() if name != "out_dtype"}
    out, lse = torch.ops.libfa.attention(*inputs, **tensors, **keywords)
    given = (torch.ones_like(out), None, *inputs, out, lse)
    keywords["wanted"] = [True, False, True, "bias" in tensors, False]
    torch.library.opcheck(torch.ops.libfa.attention_backward.default, given, {**tensors, **keywords})


def step(q, k, v, weight):
    """A training step: dense, varlen and flash_attn's functions."""
    x = libfa.torch.attention(q, k, v, causal=True, window=(7, 0)) @ weight
    x = flash_attn.flash_attn_func(x, k, v, causal=True, softcap=3.0)
    packed = flash_attn.flash_attn_varlen_func(x.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), *both(x, k), 9, 21)
    return F.relu(packed).square().sum()


def both(q, k):
    return (torch.arange(3, dtype=torch.int32) * x.shape[1] for x in (q, k))


def test_compiled_step(calls):
    inputs = [*leaves(), randn(16, 16).requires_grad_()]
    want = torch.autograd.grad(step(*inputs), inputs)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*inputs), inputs)
    assert len(calls) == 6
    for x, y in zip(found, want):
        assert torch.allclose(x, y, rtol=1e-5, atol=1e-5)


def test_checkpoints():
    inputs = [*leaves(), randn(16, 16).requires_grad_()]
    want = torch.autograd.grad(step(*inputs), inputs)
    found = torch.autograd.grad(checkpoint(step, *inputs, use_reentrant=False), inputs)
    assert all(torch.equal(x, y) for x, y in zip(found, want))


def test_deterministic(monkeypatch, calls):
    flags = []
    made = libfa.op.op_of
    for module in ("attention", "backward"):
        monkeypatch.setitem(
            importlib.import_module(f"libfa.{module}").__dict__, "op_of", lambda *given: flags.append(given[13]) or made(*given)
        )
    q, k, v = leaves()
    loose = capi.FA_FLAG_NONDETERMINISTIC
    for call, want in (
        (lambda: libfa.torch.attention(q, k, v), 0),
        (lambda: libfa.torch.attention(q, k, v, deterministic=False), loose),
        (lambda: flash_attn.flash_attn_func(q, k, v), loose),
        (lambda: flash_attn.flash_attn_func(q, k, v, deterministic=True), 0),
    ):
        call().sum().backward()
        assert flags[-1] == want
    torch.use_deterministic_algorithms(True)
    try:
        flash_attn.flash_attn_func(q, k, v).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert flags[-1] == 0


def test_functions_of_torch_func():
    q, k, v = (x.detach() for x in leaves())

    def loss(q, k, v):
        return libfa.torch.attention(q, k, v, causal=True).square().sum()

    wide = [x.requires_grad_() for x in (q.clone(), k.clone(), v.clone())]
    want = torch.autograd.grad(loss(*wide), wide)
    found = torch.func.grad(loss, argnums=(0, 1, 2))(q, k, v)
    assert all(torch.equal(x, y) for x, y in zip(found, want))
    each = torch.vmap(torch.func.grad(loss))(q[:, None], k[:, None], v[:, None])
    assert torch.equal(each[:, 0], want[0])
    whole = torch.func.grad(lambda q: torch.vmap(loss)(q[:, None], k[:, None], v[:, None]).sum())(q)
    assert torch.equal(whole, want[0])
    assert torch.func.jacrev(loss)(q, k, v).shape == q.shape
    with pytest.raises(NotImplementedError, match="second derivatives"):
        torch.func.grad(lambda q: torch.func.grad(loss)(q, k, v).sum())(q)


def test_refused():
    q, k, v = leaves()
    (first,) = torch.autograd.grad(libfa.torch.attention(q, k, v).square().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match="alibi_slopes: requires a gradient"):
        libfa.torch.attention(q, k, v, alibi_slopes=torch.ones(4, requires_grad=True)).sum().backward()
    table = torch.arange(2, dtype=torch.int32)[:, None]
    out = libfa.torch.attention(q, k, v, block_table=table, seqused_k=[21, 3])
    with pytest.raises(NotImplementedError, match="block_table: libfa computes no gradients"):
        out.sum().backward()
    with pytest.raises(NotImplementedError, match="q: requires a gradient.*libfa.torch.attention"):
        libfa.attention(q, k, v)
    with pytest.raises(NotImplementedError, match="k_cache: requires a gradient"):
        flash_attn.flash_attn_with_kvcache(q.detach(), k, v)
    with pytest.raises(NotImplementedError, match="dropout_p"):
        flash_attn.flash_attn_func(q, k, v, dropout_p=0.1)


@pytest.mark.filterwarnings("ignore")  # matplotlib's own
def test_the_example_that_trains(capsys, monkeypatch, tmp_path, calls):
    plot = ["--plot", str(tmp_path / "loss.svg")] if importlib.util.find_spec("matplotlib") else []
    path = SOURCE / "bindings" / "python" / "examples" / "train.py"
    monkeypatch.setattr("sys.argv", [str(path), "--steps", "3", *plot])
    runpy.run_path(str(path), run_name="__main__")
    assert float(capsys.readouterr().out.partition("largest difference: ")[2].split()[0]) < 1e-5
    assert len(calls) == 2 * 3  # two layers
    assert not plot or (tmp_path / "loss.svg").stat().st_size > 1000

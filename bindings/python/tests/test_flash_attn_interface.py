"""libfa.flash_attn_interface and libfa.bert_padding as frameworks use them: the results are autograd's of libfa.flash_attn,
signatures are upstream's, padding and its gradients are upstream's own (with einops)."""
# needs: torch, einops

import ast
import inspect
import math
import pathlib
import sys
import tarfile

import pytest
import torch

from libfa import bert_padding, flash_attn
from libfa import flash_attn_interface as interface

SOURCES = sorted(pathlib.Path(sys.prefix, "sources").glob("flash_attn-*.tar.gz"))


def upstream(name):
    with tarfile.open(SOURCES[-1]) as sources:
        (member,) = (x for x in sources if x.name.count("/") == 2 and x.name.endswith(f"/flash_attn/{name}.py"))
        return sources.extractfile(member).read().decode()


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("given", [{}, dict(causal=True), dict(causal=True, window_size=(3, 0), softcap=2.0)], ids=str)
def test_forward_and_backward(given):
    q, k, v, dout = (random(2, n, h, 16, seed=n + h).requires_grad_(i < 3) for i, (n, h) in enumerate(((9, 4), (21, 2), (21, 2), (9, 4))))
    want, lse, _ = flash_attn.flash_attn_func(q, k, v, return_attn_probs=True, **given)
    gradients = torch.autograd.grad(want, (q, k, v), dout)
    left, right = given.get("window_size", (-1, -1))
    numbers = (0.0, 0.25, given.get("causal", False), left, right, given.get("softcap", 0.0), None)
    out, softmax_lse, dmask, state = interface._flash_attn_forward(q, k, v, *numbers, False)
    assert torch.equal(out, want) and torch.equal(softmax_lse, lse) and not out.requires_grad
    assert dmask.numel() == 0 and (state.shape, state.dtype) == ((2,), torch.int64)
    found = [torch.full_like(x, math.nan) for x in (q, k, v)]
    softmax_d = interface._flash_attn_backward(dout, q, k, v, out, softmax_lse, *found, *numbers, True, rng_state=state)
    assert torch.allclose(softmax_d, (dout * out).sum(-1).transpose(1, 2).detach(), atol=1e-5)
    for got, gradient in zip(found, gradients):
        assert torch.allclose(got, gradient, atol=1e-5)
    alone = torch.full_like(k, math.nan)
    interface._flash_attn_backward(dout, q, k, v, out, softmax_lse, None, alone, None, *numbers, True)
    assert torch.equal(alone, found[1])


def test_varlen():
    ends_q, ends_k = torch.tensor([0, 4, 9], dtype=torch.int32), torch.tensor([0, 13, 21], dtype=torch.int32)
    q, k, v, dout = (random(n, h, 16, seed=n + h).requires_grad_(i < 3) for i, (n, h) in enumerate(((10, 4), (21, 2), (21, 2), (10, 4))))
    want, lse, _ = flash_attn.flash_attn_varlen_func(q, k, v, ends_q, ends_k, 5, 13, causal=True, return_attn_probs=True)
    gradients = torch.autograd.grad(want[:9], (q, k, v), dout[:9])
    sizes = (ends_q, ends_k, 5, 13)
    out, softmax_lse, _, _ = interface._flash_attn_varlen_forward(q, k, v, *sizes, 0.0, 0.25, True)
    assert torch.equal(out[:9], want[:9]) and torch.equal(softmax_lse[:, :9], lse[:, :9])
    for zero_tensors in (False, True):
        found = [torch.full_like(x, 7.0) for x in (q, k, v)]
        softmax_d = interface._flash_attn_varlen_backward(
            dout, q, k, v, out, softmax_lse, *found, *sizes, 0.0, 0.25, True, deterministic=True, zero_tensors=zero_tensors
        )
        assert softmax_d.shape == (4, 10)
        assert torch.allclose(found[0][:9], gradients[0][:9], atol=1e-5)
        assert (found[0][9] == (0.0 if zero_tensors else 7.0)).all()
        assert all(torch.allclose(got, gradient, atol=1e-5) for got, gradient in zip(found[1:], gradients[1:]))


def test_varlen_lengths_and_pages():
    ends_q, ends_k = torch.tensor([0, 4, 9], dtype=torch.int32), torch.tensor([0, 13, 21], dtype=torch.int32)
    q, k, v = random(9, 4, 16), random(21, 2, 16, seed=2), random(21, 2, 16, seed=3)
    used, leftpad = torch.tensor([10, 6], dtype=torch.int32), torch.tensor([2, 1], dtype=torch.int32)
    out, *_ = interface._flash_attn_varlen_forward(
        q, k, v, ends_q, ends_k, 5, 13, 0.0, None, True, seqused_k=used, leftpad_k=leftpad
    )
    for b, (keys, rows) in enumerate(((slice(2, 10), slice(0, 4)), (slice(14, 19), slice(4, 9)))):
        assert torch.allclose(
            out[rows], flash_attn.flash_attn_func(q[None, rows], k[None, keys], v[None, keys], causal=True)[0], atol=1e-6
        )
    pages, table = [random(5, 8, 2, 16, seed=seed) for seed in (4, 5)], torch.tensor([[3, 1], [0, 0]], dtype=torch.int32)
    out, *_ = interface._flash_attn_varlen_forward(q, *pages, ends_q, ends_k, 5, 13, 0.0, None, True, block_table=table)
    for b, (length, rows) in enumerate(((13, slice(0, 4)), (8, slice(4, 9)))):
        ks, vs = (x[table[b].long()].flatten(0, 1)[None, :length] for x in pages)
        assert torch.allclose(out[rows], flash_attn.flash_attn_func(q[None, rows], ks, vs, causal=True)[0], atol=1e-6)


def test_errors_name_their_arguments():
    q = random(1, 4, 2, 16)
    with pytest.raises(NotImplementedError, match=r"dropout_p: got 0\.1"):
        interface._flash_attn_forward(q, q, q, 0.1, None, False)
    out, lse, _, _ = interface._flash_attn_forward(q, q, q, 0.0, None, False)
    with pytest.raises(NotImplementedError, match=r"dropout_p: got 0\.1"):
        interface._flash_attn_backward(q, q, q, q, out, lse, None, None, None, 0.1, None, False)
    with pytest.raises(RuntimeError, match="softmax_lse"):
        interface._flash_attn_backward(q, q, q, q, out, lse[:, :, 1:], None, torch.empty_like(q), None, 0.0, None, False)


@pytest.mark.parametrize(
    "name", ["_flash_attn_forward", "_flash_attn_varlen_forward", "_flash_attn_backward", "_flash_attn_varlen_backward"]
)
def test_upstream_arguments(name):
    """By name and place; arguments that upstream requires may have a default here."""
    functions = (node for node in ast.walk(ast.parse(upstream("flash_attn_interface"))) if isinstance(node, ast.FunctionDef))
    (function,) = (node for node in functions if node.name == name)
    assert list(inspect.signature(getattr(interface, name)).parameters) == [x.arg for x in function.args.args]


def test_every_public_function_is_there():
    functions = (node for node in ast.parse(upstream("flash_attn_interface")).body if isinstance(node, ast.FunctionDef))
    public = {node.name for node in functions if node.name.startswith("flash_attn_")}
    assert public == set(interface.__all__)
    assert all(getattr(interface, name) is getattr(flash_attn, name) for name in public)


@pytest.fixture(scope="module")
def original():
    module = type(sys)("upstream_bert_padding")
    exec(upstream("bert_padding"), vars(module))
    return module


MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 0, 0, 0]])
UNUSED = torch.tensor([[1, 0, 0, 0, 0], [0] * 5, [0, 0, 1, 0, 0]])


@pytest.mark.parametrize("unused", [None, UNUSED], ids=["plain", "unused"])
def test_unpad_and_pad(original, unused):
    x = random(3, 5, 2, 4).requires_grad_()
    (tokens, indices, *sizes), wanted = (m.unpad_input(x, MASK, unused) for m in (bert_padding, original))
    assert torch.equal(tokens, wanted[0]) and torch.equal(indices, wanted[1])
    for got, want in zip(sizes, wanted[2:]):
        assert got == want if isinstance(want, int) else (torch.equal(got, want) and got.dtype == want.dtype)
    padded = bert_padding.pad_input(tokens, indices, 3, 5)
    assert torch.equal(padded, original.pad_input(tokens, indices, 3, 5))
    weight = random(3, 5, 2, 4, seed=2)
    (gradient,) = torch.autograd.grad((padded * weight).sum(), x)
    (wanted_gradient,) = torch.autograd.grad((original.pad_input(wanted[0], wanted[1], 3, 5) * weight).sum(), x)
    assert torch.equal(gradient, wanted_gradient)


def test_concatenated_sequences(original):
    lengths = torch.tensor([[2, 3, 0, 0, 0, 0], [3, 2, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0]])
    x = random(3, 6, 4)
    got, want = (m.unpad_input_for_concatenated_sequences(x, lengths) for m in (bert_padding, original))
    assert all(torch.equal(a, b) for a, b in zip(got[:3], want[:3])) and got[3] == want[3] == 6


def test_residual(original):
    indices, weights = torch.tensor([4, 0, 2]), [random(3, 2, seed=2), random(5, 2, seed=3)]
    gradients = []
    for module in (bert_padding, original):
        x = random(5, 2).requires_grad_()
        results = module.index_first_axis_residual(x * 1.0, indices)
        gradients.append(torch.autograd.grad(sum((a * b).sum() for a, b in zip(results, weights)), x)[0])
    assert torch.allclose(*gradients)

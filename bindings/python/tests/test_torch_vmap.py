"""torch.vmap of libfa.torch makes one call of all samples, with the results of a call for each; torch's counter of operations
counts libfa's as its own. Runs in the process of test_torch.py."""
# needs: torch

from unittest import mock

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import libfa.torch
from libfa import capi

SAMPLES, BATCH, ROWS, KEYS, HEADS, KV_HEADS, DIM = 3, 2, 5, 7, 4, 2, 8
SHAPES = {
    "q": (BATCH, ROWS, HEADS, DIM),
    "k": (BATCH, KEYS, KV_HEADS, DIM),
    "v": (BATCH, KEYS, KV_HEADS, DIM),
    "bias": (BATCH, HEADS, ROWS, KEYS),
    "one_bias": (1, HEADS, ROWS, KEYS),
    "flat_bias": (ROWS, KEYS),
    "mask": (BATCH, 1, ROWS, KEYS),
    "alibi_slopes": (BATCH, HEADS),
    "sinks": (HEADS,),
    "batch_sinks": (BATCH, HEADS),
    "seqused_k": (BATCH,),
    "q_offset": (BATCH,),
}


def made(name, samples=None):
    """A tensor of SHAPES, with a dimension of samples in front."""
    shape = SHAPES[name] if samples is None else (samples, *SHAPES[name])
    seed = torch.Generator().manual_seed(len(name) + len(shape))
    if name in ("seqused_k", "q_offset"):
        return torch.randint(1, KEYS, shape, generator=seed, dtype=torch.int32)
    if name == "mask":
        return torch.rand(shape, generator=seed) < 0.6
    return torch.randn(shape, generator=seed)


def keyword(name):
    return name.removeprefix("one_").removeprefix("flat_").removeprefix("batch_")


CASES = [  # inputs besides q, k and v, those with samples, layout
    ((), ("q",), "bshd"),
    ((), ("q", "k", "v"), "bshd"),
    ((), ("q", "k", "v"), "bhsd"),
    ((), ("k",), "bshd"),
    ((), ("v",), "bshd"),
    (("bias",), ("q",), "bshd"),
    (("bias",), ("bias",), "bshd"),
    (("one_bias",), ("q", "k", "v"), "bshd"),
    (("one_bias",), ("one_bias",), "bshd"),
    (("flat_bias",), ("q",), "bshd"),
    (("flat_bias",), ("q", "flat_bias"), "bshd"),
    (("mask", "alibi_slopes"), ("q", "mask"), "bshd"),
    (("alibi_slopes",), ("k", "alibi_slopes"), "bshd"),
    (("sinks",), ("q", "k", "v"), "bshd"),
    (("sinks",), ("sinks",), "bshd"),
    (("batch_sinks", "one_bias"), ("q", "batch_sinks"), "bshd"),
    (("seqused_k", "q_offset"), ("q", "seqused_k"), "bshd"),
    (("seqused_k", "q_offset"), ("q_offset",), "bshd"),
]


def attention(names, layout):
    def call(*tensors):
        given = dict(zip(("q", "k", "v", *names), tensors))
        q, k, v = (given.pop(name) for name in "qkv")
        if layout == "bhsd":
            q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        given = {keyword(name): x for name, x in given.items()}
        return libfa.torch.attention(q, k, v, causal="q_offset" in given, layout=layout, return_lse=True, **given)

    return call


def samples_of(names, mapped):
    tensors = [made(name, SAMPLES if name in mapped else None) for name in ("q", "k", "v", *names)]
    return tensors, tuple(0 if name in mapped else None for name in ("q", "k", "v", *names))


def one_by_one(call, tensors, axes):
    found = [call(*(x if axis is None else x[i] for x, axis in zip(tensors, axes))) for i in range(SAMPLES)]
    return [torch.stack(x) for x in zip(*found)]


@pytest.mark.parametrize(("names", "mapped", "layout"), CASES)
def test_forward(names, mapped, layout):
    call = attention(names, layout)
    tensors, axes = samples_of(names, mapped)
    want = one_by_one(call, tensors, axes)
    with mock.patch.object(capi, "forward", wraps=capi.forward) as calls:
        found = torch.vmap(call, in_dims=axes)(*tensors)
    assert calls.call_count == 1
    for x, y in zip(found, want):
        assert x.shape == y.shape
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize(("names", "mapped", "layout"), CASES)
def test_gradients(names, mapped, layout):
    call = attention(names, layout)
    tensors, axes = samples_of(names, mapped)
    of = tuple(i for i, name in enumerate(("q", "k", "v", *names)) if keyword(name) in ("q", "k", "v", "bias", "sinks"))

    def loss(*given):
        out, lse = call(*given)
        return (out * torch.arange(DIM)).square().sum() + lse.sum()

    each = torch.func.grad(loss, argnums=of)
    want = one_by_one(each, tensors, axes)
    with mock.patch.object(capi, "backward", wraps=capi.backward) as calls:
        found = torch.vmap(each, in_dims=axes)(*tensors)
    assert calls.call_count == 1
    for x, y in zip(found, want):
        assert x.shape == y.shape and x.dtype == y.dtype
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4)

    # One call for all samples: shared inputs have one gradient.
    def total(*given):
        return torch.vmap(loss, in_dims=axes)(*given).sum()

    for i, x in zip(of, torch.func.grad(total, argnums=of)(*tensors)):
        torch.testing.assert_close(x, want[of.index(i)] if axes[i] == 0 else want[of.index(i)].sum(0), rtol=1e-4, atol=1e-4)


def test_other_axes_and_samples_of_samples():
    q, k, v = (made(name, SAMPLES) for name in "qkv")
    want = torch.stack([libfa.torch.attention(*x) for x in zip(q, k, v)])
    moved = torch.vmap(libfa.torch.attention, in_dims=(2, 0, -1))(q.movedim(0, 2), k, v.movedim(0, -1))
    torch.testing.assert_close(moved, want)
    twice = torch.vmap(torch.vmap(libfa.torch.attention, in_dims=(0, None, None)), in_dims=(None, 0, 0))(q, k, v)
    torch.testing.assert_close(twice[1, 2], libfa.torch.attention(q[2], k[1], v[1]))


def test_packed_and_shared_sequences_one_by_one():
    q = torch.randn(SAMPLES, 6, HEADS, DIM)
    k, v = torch.randn(2, 9, KV_HEADS, DIM)
    ends_q, ends_k = (torch.tensor(x, dtype=torch.int32) for x in ([0, 2, 6], [0, 5, 9]))

    def packed(q):
        return libfa.torch.attention(q, k, v, cu_seqlens_q=ends_q, cu_seqlens_k=ends_k, max_seqlen_q=4, max_seqlen_k=5)

    assert torch.equal(torch.vmap(packed)(q), torch.stack([packed(x) for x in q]))
    index = torch.tensor([[1, 0], [1, 1], [0, 1]], dtype=torch.int32)
    q, k, v = (made(name) for name in "qkv")

    def shared(index):
        return libfa.torch.attention(q, k, v, kv_batch_idx=index)

    assert torch.equal(torch.vmap(shared)(index), torch.stack([shared(x) for x in index]))


@pytest.mark.parametrize("backward", [False, True])
def test_operations_are_counted_as_torchs_own_are(backward):
    q, k, v = (torch.randn(2, 4, n, 16, requires_grad=backward) for n in (5, 7, 7))

    def counted(attention):
        with FlopCounterMode(display=False) as counter:
            out = attention(q, k, v)
            if backward:
                out.sum().backward()
        return counter.get_total_flops()

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        want = counted(torch.nn.functional.scaled_dot_product_attention)
    assert want == (14 if backward else 4) * 2 * 4 * 5 * 7 * 16
    assert counted(libfa.torch.scaled_dot_product_attention) == want
    assert counted(lambda q, k, v: libfa.torch.attention(*(x.transpose(1, 2) for x in (q, k, v)))) == want


def test_operations_of_packed_sequences_and_of_pages():
    q, k = torch.randn(6, HEADS, DIM), torch.randn(9, KV_HEADS, DIM)
    with FlopCounterMode(display=False) as counter:
        libfa.torch.attention(q, k, k, cu_seqlens_q=[0, 2, 6], cu_seqlens_k=[0, 5, 9], max_seqlen_q=4, max_seqlen_k=5)
    assert counter.get_total_flops() == 4 * HEADS * DIM * (2 * 5 + 4 * 4)
    pages = torch.randn(4, 16, KV_HEADS, DIM)
    table = torch.tensor([[0, 2], [1, 3]], dtype=torch.int32)
    with FlopCounterMode(display=False) as counter:
        libfa.torch.attention(torch.randn(2, 1, HEADS, DIM), pages, pages, block_table=table, seqused_k=[17, 20])
    assert counter.get_total_flops() == 4 * HEADS * DIM * 2 * 32

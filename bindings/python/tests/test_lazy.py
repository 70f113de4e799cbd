"""A tensor's meaning is more than its address: tensors that torch and JAX compute lazily, wrap, or keep elsewhere are either
resolved or refused in words that name the argument, by every function and for every argument."""
# needs: torch, jax

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.masked import masked_tensor
from torch.testing._internal.two_tensor import TwoTensor

import libfa
import libfa.torch
from libfa import flash_attn

GENERATOR = torch.Generator().manual_seed(5)


def randn(*shape):
    return torch.randn(shape, generator=GENERATOR)


def negated(x):
    """A tensor of x's values whose memory holds them with the other sign."""
    return torch.complex(torch.zeros_like(x), -x).conj().imag


SHAPE = (1, 3, 2, 8)
Q, K, V, DOUT = (randn(*SHAPE) for _ in range(4))
BIAS, SLOPES, SINKS = randn(3, 3), randn(2).abs(), randn(2)
OUT, LSE = libfa.attention(Q, K, V, bias=BIAS, return_lse=True)
COS, SIN = randn(9, 4), randn(9, 4)


def varlen(q, k, v, cu_seqlens_q):
    return flash_attn.flash_attn_varlen_func(q[0], k[0], v[0], cu_seqlens_q, cu_seqlens_q, 3, 3)


def gradients(function, wanted=("q", "k", "v")):
    """function with autograd: the gradients of the wanted inputs, by dout."""

    def call(dout, **given):
        leaves = {name: x.detach().requires_grad_(name in wanted) for name, x in given.items()}
        return torch.autograd.grad(function(**leaves), [leaves[name] for name in wanted], dout)

    return call


INTS = torch.tensor([-0, -3], dtype=torch.int32)
# Every function, with its tensors by name.
CALLS = {
    "libfa.attention": (libfa.attention, dict(q=Q, k=K, v=V, bias=BIAS, alibi_slopes=SLOPES, sinks=SINKS)),
    "libfa.torch.attention": (libfa.torch.attention, dict(q=Q, k=K, v=V, bias=BIAS, alibi_slopes=SLOPES, sinks=SINKS)),
    "sdpa": (libfa.torch.scaled_dot_product_attention, dict(query=Q, key=K, value=V, attn_mask=randn(2, 2))),
    "flash_attn_func": (flash_attn.flash_attn_func, dict(q=Q, k=K, v=V, alibi_slopes=SLOPES)),
    "flash_attn_kvpacked_func": (flash_attn.flash_attn_kvpacked_func, dict(q=Q, kv=torch.stack([K, V], 2))),
    "flash_attn_qkvpacked_func": (flash_attn.flash_attn_qkvpacked_func, dict(qkv=torch.stack([Q, K, V], 2))),
    "flash_attn_varlen_func": (varlen, dict(q=Q, k=K, v=V, cu_seqlens_q=-INTS)),
    "flash_attn_with_kvcache": (flash_attn.flash_attn_with_kvcache, dict(q=Q, k_cache=K, v_cache=V)),
    "libfa.backward": (libfa.backward, dict(q=Q, k=K, v=V, out=OUT, lse=LSE, dout=DOUT, bias=BIAS)),
    "dlse": (libfa.backward, dict(q=Q, k=K, v=V, out=OUT, lse=LSE, dout=DOUT, dlse=randn(1, 2, 3))),
    "delta": (libfa.backward, dict(q=Q, k=K, v=V, out=OUT, lse=LSE, dout=DOUT, delta=randn(1, 2, 3))),
    "gradients": (gradients(libfa.torch.attention), dict(q=Q, k=K, v=V, dout=DOUT, bias=BIAS)),
}
ARGUMENTS = [(call, name) for call, (_, given) in CALLS.items() for name in given]


def of(result):
    return [x for x in (result if isinstance(result, tuple) else (result,)) if x is not None]


@pytest.mark.parametrize("call, name", ARGUMENTS)
def test_the_negative_bit(call, name):
    function, given = CALLS[call]
    lazy = torch._neg_view(-given[name]) if name.startswith("cu_") else negated(given[name])
    assert lazy.is_neg() and torch.equal(lazy, given[name])
    for found, want in zip(of(function(**{**given, name: lazy})), of(function(**given)), strict=True):
        assert torch.equal(found, want)


@pytest.mark.parametrize("call, name", [(call, name) for call, name in ARGUMENTS if not name.startswith("cu_")])
def test_tensors_of_zeros(call, name):
    function, given = CALLS[call]
    zeros = torch._efficientzerotensor(given[name].shape, dtype=given[name].dtype)
    assert zeros._is_zerotensor()
    want = function(**{**given, name: torch.zeros_like(given[name])})
    for found, exact in zip(of(function(**{**given, name: zeros})), of(want), strict=True):
        assert torch.allclose(found, exact, atol=1e-6)  # the dispatcher's zeros have other strides


def test_parts_of_lazy_tensors():
    """A part of a tensor of zeros, or of one whose storage was freed, has an address that is not 0."""
    zeros = torch._efficientzerotensor(1, 4, 2, 8)[:, 1:]
    assert zeros.data_ptr() != 0
    assert torch.equal(libfa.attention(Q, K, zeros), torch.zeros(SHAPE))
    with pytest.raises(libfa.InvalidArgument, match="v: has no memory: its storage was freed"):
        whole = randn(1, 4, 2, 8)
        part = whole[:, 1:]
        whole.untyped_storage().resize_(0)
        libfa.attention(Q, K, part)


def jagged():
    return torch.nested.nested_tensor([randn(2, 2, 8), randn(3, 2, 8)], layout=torch.jagged)


def freed():
    x = randn(*SHAPE)
    x.untyped_storage().resize_(0)
    return x


def fake():
    with FakeTensorMode() as mode:
        return mode.from_tensor(randn(*SHAPE))


UNREADABLE = {
    "sparse": (lambda: randn(*SHAPE).to_sparse(), "is sparse (torch.sparse_coo)"),
    "rows of sparse": (lambda: randn(16, 8).to_sparse_csr(), "is sparse (torch.sparse_csr)"),
    "oneDNN's": (lambda: randn(*SHAPE).to_mkldnn(), "has torch's layout torch._mkldnn"),
    "nested": (lambda: torch.nested.nested_tensor([randn(2, 2, 8), randn(3, 2, 8)]), "is a nested tensor"),
    "jagged": (jagged, "is a nested tensor"),
    "masked": (lambda: masked_tensor(randn(*SHAPE), randn(*SHAPE) > 0), "is a MaskedTensor"),
    "freed": (freed, "has no memory: its storage was freed"),
    "quantised": (
        lambda: torch.quantize_per_tensor(randn(*SHAPE), 0.1, 0, torch.qint8),
        "dtype qint8",
    ),
    "conjugate": (lambda: torch.complex(Q, Q).conj(), "dtype complex64"),
}
WITHOUT_DISPATCH = {  # seen through by libfa.torch's operator
    "meta": (lambda: torch.empty(SHAPE, device="meta"), "lives on the device meta"),
    "functional": (lambda: torch._to_functional_tensor(randn(*SHAPE)), "is a functional tensor"),
    "fake": (fake, "is a FakeTensor"),
    "two": (lambda: TwoTensor(randn(*SHAPE), randn(*SHAPE)), "is a TwoTensor"),
}
REFUSING = {
    "libfa.attention": lambda x: libfa.attention(x, K, V),
    "k": lambda x: libfa.attention(Q, x, V),
    "bias": lambda x: libfa.attention(Q, K, V, bias=x),
    "seqused_k": lambda x: libfa.attention(Q, K, V, seqused_k=x),
    "out": lambda x: libfa.attention(Q, K, V, out=x),
    "lse": lambda x: libfa.attention(Q, K, V, lse=x),
    "libfa.backward": lambda x: libfa.backward(x, K, V, OUT, LSE, DOUT),
    "dout": lambda x: libfa.backward(Q, K, V, OUT, LSE, x),
    "dq": lambda x: libfa.backward(Q, K, V, OUT, LSE, DOUT, dq=x),
    "flash_attn_with_kvcache": lambda x: flash_attn.flash_attn_with_kvcache(x, K, V),
    "k_cache": lambda x: flash_attn.flash_attn_with_kvcache(Q, x, V, K, V, cache_seqlens=0),
}
OF_TORCH = {
    "libfa.torch": lambda x: libfa.torch.attention(x, K, V),
    "libfa.torch, k": lambda x: libfa.torch.attention(Q, x, V),
    "with gradients": lambda x: libfa.torch.attention(Q.clone().requires_grad_(), x, V),
    "query": lambda x: libfa.torch.scaled_dot_product_attention(x, K, V),
    "key": lambda x: libfa.torch.scaled_dot_product_attention(Q, x, V),
    "flash_attn_func": lambda x: flash_attn.flash_attn_func(x, K, V),
    "flash_attn_func, k": lambda x: flash_attn.flash_attn_func(Q, x, V),
    "qkv": lambda x: flash_attn.flash_attn_qkvpacked_func(x),
}


@pytest.mark.filterwarnings("ignore")  # of torch, that these layouts are prototypes
@pytest.mark.parametrize("kind", [*UNREADABLE, *WITHOUT_DISPATCH])
@pytest.mark.parametrize("where", [*REFUSING, *OF_TORCH])
def test_refused_in_words(where, kind):
    if where in OF_TORCH and kind in WITHOUT_DISPATCH:
        return  # supported, or refused by torch itself
    if where == "qkv" and "nested" not in UNREADABLE[kind][1]:
        return  # has no packed shape
    made, text = {**UNREADABLE, **WITHOUT_DISPATCH}[kind]
    with pytest.raises((libfa.Error, TypeError)) as error:
        {**REFUSING, **OF_TORCH}[where](made())
    name = {"libfa.": "q", "flash_": "q", "with g": "k"}.get(where[:6], where) if "," not in where else "k"
    assert str(error.value).startswith(f"{name}") and text in str(error.value), str(error.value)


def test_traced_by_torch_func():
    """libfa.attention and torch.func: a wrapped tensor is refused, and libfa.torch named."""
    for transform in (torch.vmap, lambda f: torch.func.grad(lambda q: f(q).sum()), torch.func.functionalize):
        with pytest.raises(libfa.Error, match="q: .*libfa.torch.attention"):
            transform(lambda q: libfa.attention(q, K, V))(Q[None] if transform is torch.vmap else Q)


@pytest.mark.parametrize("name", ["out", "lse"])
def test_nothing_is_written_where_the_sign_would_be_lost(name):
    x = negated(torch.zeros(SHAPE if name == "out" else (1, 2, 3)))
    with pytest.raises(libfa.InvalidArgument, match=f"{name}: is lazily negated"):
        libfa.attention(Q, K, V, return_lse=True, **{name: x})
    with pytest.raises(libfa.InvalidArgument, match="dq: is lazily negated"):
        libfa.backward(Q, K, V, OUT, LSE, DOUT, dq=negated(torch.zeros(SHAPE)))
    with pytest.raises(libfa.InvalidArgument, match="out: is a tensor of zeros without memory"):
        libfa.attention(Q, K, V, out=torch._efficientzerotensor(SHAPE))
    assert not x.any()


def test_autograd_sees_what_is_written():
    """A tensor that autograd has saved and libfa has overwritten is an error of backward(), as it is after any write."""
    for write in (
        lambda x: libfa.attention(Q, K, V, out=x),
        lambda x: libfa.backward(Q, K, V, OUT, LSE, DOUT, dk=x),
    ):
        x, weight = torch.ones(SHAPE), torch.ones(SHAPE, requires_grad=True)
        product = x * weight
        write(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
    lse = torch.ones(1, 2, 3)
    libfa.attention(Q, K, V, lse=lse, return_lse=True)
    assert lse._version == 1
    with torch.inference_mode():
        libfa.attention(Q, K, V, out=torch.empty(SHAPE))


def test_plain_subclasses_are_read():
    class Named(torch.Tensor):
        pass

    want = libfa.attention(Q, K, V)
    for x in (Q.as_subclass(Named), torch.nn.Parameter(Q, requires_grad=False), torch._lazy_clone(Q)):
        assert torch.equal(libfa.attention(x, K, V), want)


TYPES = sorted({x for x in vars(torch).values() if isinstance(x, torch.dtype)}, key=str)


@pytest.mark.filterwarnings("ignore")  # of torch, that a type is a prototype
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_types_of_torch(dtype):
    """Every element type, for every kind of argument: taken, or refused by name."""
    floats, name = {torch.float32, torch.float16, torch.bfloat16}, str(dtype).removeprefix("torch.")
    for argument, shape, types in (
        ("q", SHAPE, floats),
        ("out", SHAPE, floats),
        ("lse", (1, 2, 3), {torch.float32}),
        ("bias", (3, 3), floats),
        ("mask", (3, 3), {torch.bool, torch.uint8}),
        ("sinks", (2,), floats),
        ("alibi_slopes", (2,), floats),
        ("seqused_k", (1,), {torch.int32}),
        ("block_table", (1, 1), {torch.int32}),
    ):
        try:
            x = torch.empty(shape, dtype=dtype)
        except RuntimeError:
            continue  # torch makes no tensor of it
        more = dict(seqused_k=[3]) if argument == "block_table" else {}
        try:
            libfa.attention(**{**dict(q=Q, k=K, v=V), **more, argument: x.zero_() if dtype in types else x})
        except libfa.InvalidArgument as error:
            assert dtype not in types, error
            assert str(error).startswith(argument) and name in str(error), (name, str(error))
        else:
            assert dtype in types, (argument, dtype)


# JAX's arrays never change, and may be gone.


def of_jax(*shape):
    return jnp.asarray(np.random.default_rng(1).standard_normal(shape or SHAPE).astype("f4"))


@pytest.mark.parametrize("name", ["q", "k", "bias"])
def test_deleted_and_donated_arrays_of_jax(name):
    for end in (lambda x: x.delete(), jax.jit(lambda x: x + 1, donate_argnums=0)):
        given = dict(q=of_jax(), k=of_jax(), v=of_jax(), bias=of_jax(3, 3))
        end(given[name])
        assert given[name].is_deleted()
        with pytest.raises(libfa.InvalidArgument, match=f"{name}: has been deleted"):
            libfa.attention(**given)


def test_arrays_of_jax_are_not_written():
    x, out = of_jax(), of_jax()
    before = np.array(out)
    with pytest.raises(libfa.InvalidArgument, match="out: is an array of JAX, which never changes"):
        libfa.attention(x, x, x, out=out)
    assert (np.array(out) == before).all()


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int16", "complex64", "uint32"])
def test_types_of_jax(dtype):
    x = of_jax()
    with pytest.raises(libfa.InvalidArgument, match=f"k: got dtype {dtype}"):
        libfa.attention(x, x.astype(dtype), x)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int8"])
def test_codes_of_jax(dtype):
    x, one = of_jax(), np.ones((1, 1, 1, 1), "float32")
    k = (4 * x).astype(dtype)
    out = libfa.attention(x, k, x, k_scale=one)
    np.testing.assert_allclose(out, libfa.attention(x, k.astype("float32"), x), rtol=1e-5, atol=1e-6)


def test_random_keys_of_jax():
    with pytest.raises((libfa.InvalidArgument, TypeError), match="bias: "):
        libfa.attention(of_jax(), of_jax(), of_jax(), bias=jax.random.key(1))

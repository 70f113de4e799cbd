"""libfa on torch's tensors: directly, as an operator (torch.compile), and in the place of torch's own attention."""
# needs: torch

from unittest import mock

import numpy as np
import pytest
import reference
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import libfa
import libfa.torch
from libfa import flash_attn

torch.manual_seed(1)


def tensors(dtype=torch.float32, shape=(2, 4, 9, 16), keys=21, kv_heads=4):
    batch, _, _, dim = shape
    return [torch.randn(s, dtype=dtype) for s in (shape, (batch, kv_heads, keys, dim), (batch, kv_heads, keys, dim))]


TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_tensors(dtype):
    q, k, v = (x.transpose(1, 2) for x in tensors(dtype))
    out, lse = libfa.attention(q, k, v, causal=True, return_lse=True)
    assert type(out) is torch.Tensor and out.dtype == dtype and lse.dtype == torch.float32
    want, want_lse = reference.attention(*(x.double().numpy() for x in (q, k, v)), causal=True)
    assert abs(out.double().numpy() - want).max() < TOLERANCE[dtype]
    assert abs(lse.double().numpy() - want_lse).max() < 1e-4


def test_nothing_is_copied(monkeypatch):
    seen = []
    forward = libfa.capi.forward
    monkeypatch.setattr(libfa.capi, "forward", lambda *given: seen.append(given[2][0]) or forward(*given))
    q, k, v = tensors()
    libfa.attention(q, k.transpose(2, 3).contiguous().transpose(2, 3), v, layout="bhsd")
    k_view = k[:, :, ::2]
    libfa.attention(q, k_view, v[:, :, ::2], layout="bhsd")
    assert seen[1] == k_view.data_ptr() == k.data_ptr()


@pytest.mark.parametrize("function", [libfa.attention, libfa.torch.attention])
def test_numbers_of_torch(function):
    q, k, v = tensors()
    given = dict(softmax_scale=0.25, softcap=2.0, window=(7, 0), max_seqlen_k=21, causal=True)
    want = function(q, k, v, layout="bhsd", **given)
    given = {name: tuple(map(torch.tensor, x)) if isinstance(x, tuple) else torch.tensor(x) for name, x in given.items()}
    assert torch.equal(function(q, k, v, layout="bhsd", **given), want)
    assert torch.equal(function(q, k, v, layout="bhsd", **{**given, "window": torch.tensor([7, 0])}), want)
    for wrong in (dict(softmax_scale=0.0), dict(window=(1, 2, 3)), dict(causal=[]), dict(causal="left")):
        with pytest.raises(libfa.InvalidArgument, match=next(iter(wrong))):
            function(q, k, v, layout="bhsd", **wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'windows'"):
        function(q, k, v, windows=1)


@pytest.mark.parametrize("name", ["hadamard_k", "k_scale", "tree_mask", "out", "stream"])
def test_keywords_without_gradients_are_those_of_libfa_attention(name):
    with pytest.raises(TypeError, match=f"keyword argument '{name}'; libfa.attention has it, without gradients"):
        libfa.torch.attention(*tensors(), layout="bhsd", **{name: None})


class Recorded(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.names.append(str(function))
        return function(*arguments, **(keywords or {}))


@pytest.mark.filterwarnings("ignore:.torch.jit.* is deprecated", "ignore:There is a performance drop")
def test_an_operator_where_torch_looks():
    """A call is no operator, with gradients or without; under whatever watches, traces or transforms, it is."""
    q, k, v = tensors()
    seen = []
    forward = torch.ops.libfa.attention

    def call(*given, **keywords):
        return libfa.torch.attention(*given, layout="bhsd", **keywords)

    def looked_at(*given, **keywords):
        seen.append(1)
        return forward(*given, **keywords)

    with mock.patch.object(torch.ops.libfa, "attention", looked_at):
        want = call(q, k, v)
        with torch.inference_mode():
            call(q, k, v)
        assert not seen
        call(q.requires_grad_(), k, v).sum().backward()
        call(q.detach(), k, v, seqused_k=[21, 3])
        call(q, k, v.detach(), bias=torch.zeros(9, 21).requires_grad_()).sum().backward()
        q = q.detach()
        call(torch.nn.Parameter(q, requires_grad=False), k, v)
        assert not seen
    with Recorded() as mode:
        assert torch.equal(call(q, k, v), want)
    assert "libfa.attention.default" in mode.names
    assert "libfa.attention" in make_fx(call)(q, k, v).code
    assert "libfa::attention" in str(torch.jit.trace(call, (q, k, v)).graph)
    with FakeTensorMode() as fake:
        assert call(*(fake.from_tensor(x) for x in (q, k, v))).shape == q.shape
    assert call(*(x.to("meta") for x in (q, k, v))).device.type == "meta"
    assert torch.equal(torch.vmap(call)(q[None], k[None], v[None])[0], want)
    with pytest.raises(NotImplementedError, match="forward mode"):
        torch.func.jvp(lambda x: call(x, k, v), (q,), (q,))
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward mode"):
        call(forward_ad.make_dual(q, q), k, v)


@pytest.mark.parametrize("backend, lengths", [("aot_eager", (9, 5)), ("inductor", (9,))])
def test_compile_has_one_graph(backend, lengths, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def block(q, k, v, weight):
        out = libfa.torch.attention(q, k, v, causal=True, softmax_scale=0.2, layout="bhsd")
        return F.relu(libfa.torch.scaled_dot_product_attention(out @ weight, k, v, is_causal=True)) + 1

    q, k, v = tensors()
    weight = torch.randn(16, 16)
    compiled = torch.compile(block, fullgraph=True, backend=backend, dynamic=len(lengths) > 1)
    for rows in lengths:
        part = q[:, :, :rows]
        assert torch.allclose(compiled(part, k, v, weight), block(part, k, v, weight), atol=1e-6)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("given", ["plain", "causal", "boolean", "additive", "gqa", "scale", "3d", "2d", "5d"])
def test_scaled_dot_product_attention(given, dtype):
    q, k, v = tensors(dtype, kv_heads=2 if given == "gqa" else 4)
    keywords = {
        "causal": dict(is_causal=True),
        "boolean": dict(attn_mask=torch.rand(9, 21) < 0.7),
        "additive": dict(attn_mask=torch.randn(2, 1, 9, 21, dtype=dtype)),
        "gqa": dict(enable_gqa=True),
        "scale": dict(scale=0.3),
    }.get(given, {})
    if given == "3d":
        q, k, v = q[0], k[0], v[0]
    if given == "2d":
        q, k, v = q[0, 0], k[0, 0], v[0, 0]
    if given == "5d":
        q, k, v = (torch.stack([x, -x]) for x in (q, k, v))
        keywords = dict(attn_mask=torch.rand(2, 2, 1, 9, 21) < 0.7)
    out = libfa.torch.scaled_dot_product_attention(q, k, v, **keywords)
    mask = keywords.get("attn_mask")
    exact = {**keywords, "attn_mask": mask.double() if mask is not None and mask.dtype != torch.bool else mask}
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **exact)
    assert out.shape == want.shape and out.dtype == dtype
    assert (out.double() - want).abs().max() < 2 * TOLERANCE[dtype]


@pytest.mark.parametrize(
    "shapes, given",
    [
        ([(2, 4, 9, 16), (1, 4, 21, 16)], {}),
        ([(1, 4, 9, 16), (3, 4, 21, 16)], dict(is_causal=True)),
        ([(2, 4, 9, 16), (2, 1, 21, 16)], {}),
        ([(2, 4, 9, 16), (1, 2, 21, 16)], dict(enable_gqa=True)),
        ([(2, 4, 9, 16), (4, 21, 16)], {}),
        ([(3, 2, 4, 9, 16), (2, 4, 21, 16)], {}),
        ([(3, 2, 4, 9, 16), (3, 1, 4, 21, 16)], dict(attn_mask=torch.rand(2, 1, 9, 21) < 0.7)),
        ([(2, 4, 9, 16), (2, 4, 21, 16), (1, 4, 21, 8)], {}),
        ([(9, 16), (4, 21, 16)], {}),
    ],
    ids=str,
)
def test_scaled_dot_product_attention_broadcasts(shapes, given):
    q, k, v = (torch.randn(shape) for shape in (*shapes, shapes[1])[:3])
    want = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **given)
    out = libfa.torch.scaled_dot_product_attention(q, k, v, **given)
    assert out.shape == want.shape and (out.double() - want).abs().max() < 4e-6


@pytest.mark.parametrize("given", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("wanted", [torch.float16, torch.bfloat16])
def test_autocast(wanted, given):
    """q, k and v as in torch's own: of autocast's type, but for double, which libfa has not."""
    q, k, v = tensors(torch.float32)
    q = q.to(given)
    mask = torch.randn(9, 21)
    with torch.autocast("cpu", dtype=wanted):
        if given == torch.float64:
            with pytest.raises(libfa.InvalidArgument, match="query: got dtype float64"):
                libfa.torch.scaled_dot_product_attention(q, k, v)
            return
        out = libfa.torch.scaled_dot_product_attention(q, k, v, mask)
        want = F.scaled_dot_product_attention(q, k, v, mask)
        assert libfa.torch.attention(q, k, v, layout="bhsd").dtype == wanted
    assert out.dtype == want.dtype == wanted
    assert (out.float() - want.float()).abs().max() < 2 * TOLERANCE[wanted]
    assert libfa.torch.attention(*tensors(), layout="bhsd").dtype == torch.float32


def test_scaled_dot_product_attention_refuses():
    q, k, v = tensors(kv_heads=2)
    with pytest.raises(NotImplementedError, match="dropout_p"):
        libfa.torch.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    with pytest.raises(libfa.InvalidArgument, match="enable_gqa"):
        libfa.torch.scaled_dot_product_attention(q, k, v)
    with pytest.raises(libfa.InvalidArgument, match=r"key: got leading dimensions \(2, 2\) and value's"):
        libfa.torch.scaled_dot_product_attention(q, k, v)
    with pytest.raises(libfa.InvalidArgument, match="scale: got 0.0"):
        libfa.torch.scaled_dot_product_attention(q, k, v, scale=0.0, enable_gqa=True)
    with pytest.raises(libfa.InvalidArgument, match="attn_mask"):
        libfa.torch.scaled_dot_product_attention(q, k, v, torch.ones(9, 21), is_causal=True)
    with pytest.raises(libfa.InvalidArgument, match="causal"):
        libfa.torch.attention(q, k, v, causal="left")


def test_flash_attn_with_kvcache_in_place():
    """Results are those on numpy, which test_flash_attn.py compares with the mathematics."""
    rng = np.random.default_rng(1)
    caches = rng.standard_normal((2, 3, 24, 2, 16)).astype("f4")
    q, k, v = (rng.standard_normal((2, 3, heads, 16)).astype("f4") for heads in (4, 2, 2))
    angles = rng.standard_normal((40, 4))
    used, rows = np.array([5, 20], "i4"), np.array([2, 0], "i4")
    given = [q, *caches, k, v, np.cos(angles).astype("f4"), np.sin(angles).astype("f4"), used, rows]
    twins = [torch.from_numpy(x.copy()) for x in given]
    want = flash_attn.flash_attn_with_kvcache(*given, causal=True)
    out = flash_attn.flash_attn_with_kvcache(*twins, causal=True)
    assert torch.allclose(out, torch.from_numpy(want), atol=1e-6)
    for cache, twin in zip(caches, twins[1:3]):
        assert torch.allclose(twin, torch.from_numpy(cache), atol=1e-6) and (twin[2, 5:8] != 0).all()

"""libfa.attention on device arrays, on the emulator's GPUs: through both protocols the same as on the CPU."""

import device
import numpy as np
import pytest

import libfa
from libfa import capi

RNG = np.random.default_rng(1)
Q, K, V = (RNG.standard_normal(shape).astype("f4") for shape in ((2, 5, 4, 16), (2, 12, 2, 16), (2, 12, 2, 16)))


@pytest.mark.parametrize("kind", [device.Interface, device.Dlpack])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("promise", [False, True])
def test_as_on_the_cpu(kind, dtype, promise):
    device.use(0)
    host = [x.astype(dtype) for x in (Q, K, V)]
    used = np.array([7, 12], "i4")
    want, want_lse = libfa.attention(*host, causal=True, softcap=2.0, seqused_k=used, return_lse=True)
    q, k, v, out, lse, used_there = (kind(x) for x in (*host, np.zeros_like(host[0]), np.zeros((2, 4, 5), "f4"), used))
    libfa.attention(q, k, v, causal=True, softcap=2.0, seqused_k=used_there, out=out, lse=lse, device_pointers=promise)
    assert abs(out.numpy().astype("f8") - want).max() < {"f4": 2e-6, "f2": 4e-3}[dtype]
    assert abs(lse.numpy() - want_lse).max() < 1e-4


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_gradients_as_on_the_cpu(dtype):
    device.use(0)
    host = [x.astype(dtype) for x in (Q, K, V)]
    out, lse = libfa.attention(*host, causal=True, return_lse=True)
    want = libfa.backward(*host, out, lse, out, causal=True)
    found = [device.Interface(np.zeros_like(x)) for x in host]
    libfa.backward(*(device.Interface(x) for x in (*host, out, lse, out)), causal=True, **dict(zip(("dq", "dk", "dv"), found)))
    for x, y in zip(found, want):
        assert abs(x.numpy().astype("f8") - y).max() < {"f4": 2e-5, "f2": 4e-3}[dtype]
    with pytest.raises(libfa.InvalidArgument, match="lse: lives on the CPU, expected q's CUDA device 0"):
        libfa.backward(*(device.Interface(x) for x in (*host, out)), lse, out)


def test_merges_as_on_the_cpu():
    device.use(0)
    outs, lses = [Q, 2 * Q], [RNG.standard_normal((2, 4, 5)).astype("f4") for _ in range(2)]
    want, want_lse = libfa.merge(outs, lses, return_lse=True)
    there = [device.Dlpack(x) for x in outs], [device.Dlpack(x) for x in lses]
    out, lse = device.Dlpack(np.zeros_like(Q)), device.Dlpack(np.zeros_like(lses[0]))
    libfa.merge(*there, out=out, lse=lse)
    assert abs(out.numpy() - want).max() < 2e-6 and abs(lse.numpy() - want_lse).max() < 2e-6
    with pytest.raises(libfa.InvalidArgument, match=r"lses\[0\]: lives on the CPU, expected outs\[0\]'s CUDA device 0"):
        libfa.merge(there[0], lses, out=out)


def test_the_second_device():
    device.use(1)
    there = [device.Interface(x, 1) for x in (Q, K, V, np.zeros_like(Q))]
    libfa.attention(*there[:3], out=there[3])
    assert abs(there[3].numpy() - libfa.attention(Q, K, V)).max() < 2e-6


def test_mixed_devices_and_places():
    device.use(0)
    q, k = device.Dlpack(Q), device.Dlpack(K)
    with pytest.raises(libfa.InvalidArgument, match="v: lives on the CPU, expected q's CUDA device 0"):
        libfa.attention(q, k, V)
    with pytest.raises(libfa.InvalidArgument, match="out: lives on the CPU"):
        libfa.attention(q, k, device.Dlpack(V), out=np.zeros_like(Q))
    with pytest.raises(libfa.InvalidArgument, match="seqused_k: lives on the CPU"):
        libfa.attention(q, k, device.Dlpack(V), out=device.Dlpack(Q), seqused_k=np.array([1, 2], "i4"))
    with pytest.raises(libfa.InvalidArgument, match="k: lives on CUDA device 1"):
        libfa.attention(q, device.Dlpack(K, 1), device.Dlpack(V))


def test_an_op_says_which_kernel():
    assert libfa.Op(dtype_q=capi.FA_F32, head_dim=16, device=capi.FA_DEVICE_CUDA).kernel.startswith("cuda.sm_")

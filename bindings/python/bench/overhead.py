"""The cost of one call next to the attention itself: microseconds of processor time on tiny arrays, as the median of rounds
and the least. Every round has all calls, so that they see the same machine. With torch and JAX where they are installed.

python overhead.py [ROUNDS]
"""

import statistics
import sys
import time
import timeit

import numpy

import libfa
from libfa import capi

try:
    import torch
    import torch.nn.functional

    import libfa.torch
except ImportError:
    torch = None
try:
    import jax

    import libfa.jax
except ImportError:
    jax = None

ROUNDS, CALLS = int(sys.argv[1]) if len(sys.argv) > 1 else 300, 100

q, k, v = (numpy.ones((1, 4, 2, 8), "float32") for _ in range(3))
out = numpy.empty_like(q)


def tensor(x):
    return x.__array_interface__["data"][0], capi.FA_F32, x.shape, tuple(step // 4 for step in x.strides)


op = libfa.Op(dtype_q="float32", head_dim=8)
args = capi.fa_forward_args(*(tensor(x) for x in (q, k, v, out)))
calls = {
    "op.forward(args)": lambda: op.forward(args),
    "libfa.attention(q, k, v), numpy": lambda: libfa.attention(q, k, v),
    "libfa.attention(q, k, v, out=out)": lambda: libfa.attention(q, k, v, out=out),
}
if torch:
    torch.set_num_threads(1)
    tq, tk, tv = (torch.from_numpy(x) for x in (q, k, v))
    hq, hk, hv = (x.transpose(1, 2) for x in (tq, tk, tv))
    calls["libfa.attention(q, k, v), torch"] = lambda: libfa.attention(tq, tk, tv)
    calls["libfa.torch.attention(q, k, v)"] = lambda: libfa.torch.attention(tq, tk, tv)
    calls["libfa.torch.scaled_dot_product_attention"] = lambda: libfa.torch.scaled_dot_product_attention(hq, hk, hv)
    calls["torch's scaled_dot_product_attention"] = lambda: torch.nn.functional.scaled_dot_product_attention(hq, hk, hv)
if jax:
    jq, jk, jv = (jax.numpy.asarray(x) for x in (q, k, v))
    bare, compiled = jax.jit(lambda q, k, v: q + k), jax.jit(libfa.jax.attention)
    calls["libfa.jax.attention(q, k, v)"] = lambda: libfa.jax.attention(jq, jk, jv)
    calls["jax.jit(libfa.jax.attention)"] = lambda: compiled(jq, jk, jv)
    calls["a sum in jax.jit"] = lambda: bare(jq, jk, jv)

    ends, length, table = (torch.tensor(x, dtype=torch.int32) for x in ([0, 2, 4], [4], [[0]]))
    calls["varlen"] = lambda: libfa.attention(tq[0], tk[0], tv[0], cu_seqlens_q=ends, cu_seqlens_k=ends)
    calls["paged"] = lambda: libfa.attention(tq, tk, tv, block_table=table, seqused_k=length)

    class Bare(torch.autograd.Function):
        """The least that an autograd function costs in Python: it computes nothing."""

        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return torch.empty_like(inputs[0])

        @staticmethod
        def backward(ctx, _):
            return tuple(torch.empty_like(x) for x in ctx.saved_tensors)

    gq, gk, gv = (x.clone().requires_grad_() for x in (tq, tk, tv))
    dout = torch.ones_like(tq)
    for name, function in (
        ("a bare autograd.Function", Bare.apply),
        ("libfa.torch.attention", libfa.torch.attention),
        ("torch's", torch.nn.functional.scaled_dot_product_attention),
    ):
        calls[f"{name}, with gradients"] = lambda function=function: function(gq, gk, gv)
        calls[f"{name}, and backward"] = lambda function=function: function(gq, gk, gv).backward(dout)

times = {name: [] for name in calls}
for call in calls.values():
    call()
for _ in range(ROUNDS):
    for name, call in calls.items():
        times[name].append(timeit.timeit(call, number=CALLS, timer=time.process_time) / CALLS * 1e6)
for name, rounds in times.items():
    print(f"{name:48}{statistics.median(rounds):7.2f} us, least {min(rounds):6.2f}")

"""Packages of kernels in Triton that work on torch's tensors, as PyPI has them: run.py PACKAGE.

Triton's JIT compiles the kernels, and torch's autograd calls those of the gradients. The same mathematics in double precision on the
host is the reference.
"""

import os
import sys

import on_host
import torch
import triton

good = True


def judge(name, got, wanted, tolerance):
    """Prints how far a result is from the reference, of the reference's norm."""
    global good
    got, wanted = got.detach().cpu().double(), wanted.detach()
    apart = ((got - wanted).norm() / wanted.norm()).item()
    print(f"{name}: {apart:.2e} from the reference ({tolerance:.0e} allowed)")
    good = good and apart <= tolerance


def compare(name, function, reference, inputs, tolerance):
    """A function's result and gradients, on the device and by the reference."""
    device = [x.cuda().requires_grad_(x.is_floating_point()) for x in inputs]
    host = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]
    wanted, got = reference(*host), function(*device)
    judge(name, got, wanted, tolerance)
    weights = torch.randn(wanted.shape)
    got.backward(weights.to(got.dtype).cuda())
    wanted.backward(weights.to(got.dtype).double())
    for at, (x, y) in enumerate(zip(device, host)):
        if x.grad is not None:
            judge(f"{name}, gradient {at}", x.grad, y.grad, tolerance)


def one_configuration():
    """Lets kernels have the first one of their configurations: measurements on an emulator choose none."""
    begin = triton.runtime.Autotuner.__init__

    def begin_with_one(self, function, names, configurations, *args, **kwargs):
        begin(self, function, names, configurations[:1], *args, **kwargs)

    triton.runtime.Autotuner.__init__ = begin_with_one


def half(*shape):
    return torch.randn(*shape, dtype=torch.float16)


def softmax_attention(q, k, v, causal):
    """Attention of tensors whose last axes are rows and columns."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return scores.softmax(-1) @ v


def sageattention():
    """SageAttention 1: products of 8-bit integers and of f16 with sums of f16. Full tiles, as it counts keys behind the end as 0."""
    from sageattention import sageattn

    for dim in (64, 128):
        for causal in (False, True):
            q, k, v = (half(1, 2, 256, dim) for _ in range(3))
            wanted = softmax_attention(q.double(), k.double(), v.double(), causal)
            judge(f"sageattn {dim}, causal {causal}", sageattn(q.cuda(), k.cuda(), v.cuda(), is_causal=causal), wanted, 2e-2)


def decayed(q, k, v, g):
    """Linear attention whose weights decay with the distance; its axes are batch, rows, heads, columns."""
    q, k, v, sums = (x.transpose(1, 2) for x in (q, k, v, g.cumsum(1)))
    decay = (sums[..., :, None] - sums[..., None, :]).tril().exp().tril()
    return ((q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 * decay) @ v).transpose(1, 2)


def delta_rule(q, k, v, beta):
    """Each key's value in the state is moved towards a new one."""
    q, k = (x / (x.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    state, rows = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=q.dtype), []
    for at in range(q.shape[1]):
        key = k[:, at, :, :, None]
        step = (v[:, at] - (state * key).sum(-2)) * beta[:, at, :, None]
        state = state + key * step[:, :, None, :]
        rows.append((state * q[:, at, :, :, None]).sum(-2) * q.shape[-1] ** -0.5)
    return torch.stack(rows, 1)


def fla():
    """flash-linear-attention: softmax attention, and two forms of linear attention, in chunks."""
    from fla.ops.attn import parallel_attn
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.simple_gla import chunk_simple_gla

    q, k, v = (half(1, 150, 2, 64) for _ in range(3))

    def attention(*qkv):
        return softmax_attention(*(x.transpose(1, 2) for x in qkv), True).transpose(1, 2)

    compare("parallel_attn", parallel_attn, attention, (q, k, v), 4e-3)
    gates = torch.nn.functional.logsigmoid(torch.randn(1, 150, 2))
    compare("chunk_simple_gla", lambda *x: chunk_simple_gla(*x)[0], decayed, (q, k, v, gates), 4e-3)

    def chunks(*x):
        return chunk_delta_rule(*x, use_qk_l2norm_in_kernel=True)[0]

    compare("chunk_delta_rule", chunks, delta_rule, (q, k, v, torch.rand(1, 150, 2, dtype=torch.float16)), 4e-3)


def liger():
    """Liger: normalisations, activations, rotary embedding, cross entropy, attention among neighbours."""
    from liger_kernel import ops
    from torch.nn import functional

    # Sizes that give each thread an element: where warps hold copies of elements, they also read places that others overwrite.
    x, y, weight, bias = torch.randn(9, 4000), torch.randn(9, 4000), torch.randn(4000), torch.randn(4000)

    def rms(x, weight):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * weight

    def rms_norm(x, weight):
        return ops.LigerRMSNormFunction.apply(x, weight, 1e-6, 0.0, "llama", False)

    compare("rms_norm", rms_norm, rms, (x, weight), 1e-5)

    def layer_norm(x, weight, bias):
        return ops.LigerLayerNormFunction.apply(x, weight, bias, 1e-6)

    compare("layer_norm", layer_norm, lambda *x: functional.layer_norm(x[0], (4000,), *x[1:], 1e-6), (x, weight, bias), 1e-5)
    compare("swiglu", ops.LigerSiLUMulFunction.apply, lambda a, b: functional.silu(a) * b, (x, y), 1e-5)
    compare("softmax", ops.LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), (x,), 1e-5)
    targets = torch.arange(9) * 400
    targets[3] = -100

    def cross_entropy(x, targets):
        return ops.LigerCrossEntropyFunction.apply(x, targets, None, -100, 0.0, 0.1)[0]

    compare("cross_entropy", cross_entropy, lambda *x: functional.cross_entropy(*x, label_smoothing=0.1), (x, targets), 1e-5)
    angles = torch.arange(40)[:, None] * 0.9 ** torch.arange(32)
    cos, sin = (f(torch.cat((angles, angles), -1))[None] for f in (torch.cos, torch.sin))

    def turned(x, cos, sin):
        return x * cos + torch.cat((-x[..., 32:], x[..., :32]), -1) * sin

    def rotated(x):
        q, k = ops.LigerRopeFunction.apply(x[:, :8], x[:, 8:], cos.cuda(), sin.cuda())
        return torch.cat((q, k), 1)

    compare("rope", rotated, lambda x: turned(x, cos.double(), sin.double()), (torch.randn(1, 12, 40, 64),), 1e-5)

    def neighbours(q, k, v):
        far = (torch.arange(40)[:, None] - torch.arange(40)).abs() > 3
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(far, float("-inf"))
        return scores.softmax(-1) @ v

    def neighbourhood(q, k, v):
        return ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1, None)

    compare("neighbourhood attention", neighbourhood, neighbours, [torch.randn(1, 2, 40, 32) for _ in range(3)], 3e-3)


def main():
    torch.manual_seed(1)
    one_configuration()
    with on_host.OnHost():
        {"fla": fla, "liger": liger, "sageattention": sageattention}[sys.argv[1]]()
    print("right" if good else "WRONG", flush=True)
    os._exit(0 if good else 1)  # without tearing torch down


if __name__ == "__main__":
    main()

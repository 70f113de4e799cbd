"""Contenders of gpu_sdpa.py in the backward pass: gradients of q, k and v from the results of a forward call, as calls that are alike."""
import libfa
from gpu import calls

TOLERANCE = {"bf16": 2e-2, "f16": 5e-3}  # of |gradient - reference| / |reference|
CHUNK = 1024  # rows of the reference at a time


def inputs(device, shape, least_bytes):
    """One set of q, k, v and dout; of the goals' shapes it is larger than any cache."""
    return calls.inputs(device, shape, max(least_bytes, calls.LEAST_BYTES))[:1]


class Ours:
    """libfa, with a workspace."""

    def __init__(self, device, library, shape, sets):
        torch, (q, k, v, dout) = device.torch, sets[0]
        self.device, self.out = device, torch.empty_like(dout)
        self.lse = torch.empty(shape.B, shape.Hq, shape.Sq, 1, device=device.name)
        self.gradients = [torch.full_like(tensor, float("nan")) for tensor in (q, k, v)]
        flags = libfa.NONDETERMINISTIC if shape.gradients == "any" else 0
        forward = libfa.Attention(library, shape.dtype, shape.causal, 0, *map(calls.view, (q, k, v, self.out)), device=device.name,
                                  flags=flags)
        self.call = libfa.Backward(forward, *map(calls.view, (self.lse, dout, *self.gradients)))
        self.memory, size = calls.workspace(device, self.call)
        self.facts = {"kernel": forward.kernel, "workspace": size}

    def __call__(self, _):
        self.call(self.device.stream())
        return self.gradients


class Theirs:
    """One backend of torch. It sums in a fixed order where it is asked to, if it can."""

    def __init__(self, device, backend, shape, sets):
        from torch.nn.attention import sdpa_kernel

        self.torch, self.fixed, (q, k, v, dout) = device.torch, shape.gradients == "fixed", sets[0]
        self.torch.utils.deterministic.fill_uninitialized_memory = False  # which would be timed
        self.inputs = [tensor.transpose(1, 2).detach().requires_grad_() for tensor in (q, k, v)]
        self.dout = dout.transpose(1, 2)
        with self.torch.enable_grad(), sdpa_kernel(backend):
            self.result = self.torch.nn.functional.scaled_dot_product_attention(
                *self.inputs, is_causal=shape.causal, enable_gqa=shape.Hq != shape.Hkv)
        self.facts = {}

    def __call__(self, _):
        self.torch.use_deterministic_algorithms(self.fixed, warn_only=True)
        found = self.torch.autograd.grad(self.result, self.inputs, self.dout, retain_graph=True)
        self.torch.use_deterministic_algorithms(False)
        return [tensor.transpose(1, 2) for tensor in found]


def contenders(device, library, shape):
    theirs = lambda backend: lambda sets: Theirs(device, backend, shape, sets)
    return {"libfa": lambda sets: Ours(device, library, shape, sets),
            **{name: theirs(one) for name, one in calls.backends_of(device).items()}}


def reference(device, shape, tensors):
    """Gradients of the last sequence and its last key/value head, in double precision: dq of its query heads, dk, dv."""
    torch, group = device.torch, shape.Hq // shape.Hkv
    q, k, v, dout = (tensor[-1].double() for tensor in tensors)
    k, v = k[:, -1], v[:, -1]
    dq, dk, dv = torch.zeros_like(q[:, -group:]), torch.zeros_like(k), torch.zeros_like(v)
    column = torch.arange(shape.Sk, device=device.name)
    for head in range(-group, 0):
        for begin in range(0, shape.Sq, CHUNK):
            rows = slice(begin, min(begin + CHUNK, shape.Sq))
            scores = q[rows, head] @ k.T / shape.D**0.5
            if shape.causal:
                scores.masked_fill_(column > torch.arange(rows.start, rows.stop, device=device.name)[:, None], float("-inf"))
            weights = scores.softmax(-1)
            of_weights = dout[rows, head] @ v.T
            of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True)) / shape.D**0.5
            dq[rows, head] = of_scores @ k
            dk += of_scores.T @ q[rows, head]
            dv += weights.T @ dout[rows, head]
    return dq, dk, dv


def error_of(device, call, sets, shape):
    """The largest |gradient - reference| / |reference| of the three."""
    found = call(0)
    device.wait()
    group, worst = shape.Hq // shape.Hkv, 0.0
    for tensor, expected in zip(found, reference(device, shape, sets[0])):
        if not bool(device.torch.isfinite(tensor).all()):
            return float("nan")
        mine = tensor[-1, :, -group:].double() if expected.dim() == 3 else tensor[-1, :, -1].double()
        worst = max(worst, float((mine - expected).norm() / expected.norm()))
    return worst

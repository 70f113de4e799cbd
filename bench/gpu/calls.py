"""The contenders of gpu_sdpa.py as calls that are alike: on which of several sets of inputs, and nothing else to choose."""
import time

import libfa

CONTENDERS = ("libfa", "cudnn", "flash", "efficient")
LEAST_BYTES = 200 << 20  # that the sets of inputs together have: several times the second-level cache
MOST_SETS = 32


class Failed(Exception):
    """A contender that does not serve a shape, or serves it wrongly."""


class Device:
    """Where it runs, and by which clock it is timed."""

    def __init__(self, name):
        import torch

        self.torch, self.name = torch, name
        torch.set_grad_enabled(False)
        if name == "cuda" and not torch.cuda.is_available():
            raise SystemExit("torch finds no GPU; --device cpu tries this program without one")

    def dtype(self, name):
        return {"bf16": self.torch.bfloat16, "f16": self.torch.float16}[name]

    def facts(self):
        gpu = {} if self.name == "cpu" else {"gpu": self.torch.cuda.get_device_name(), "cudnn": self.torch.backends.cudnn.version()}
        return {"torch": self.torch.__version__, "cuda": self.torch.version.cuda, **gpu}

    def wait(self):
        if self.name == "cuda":
            self.torch.cuda.synchronize()

    def release(self):
        """Gives back what the last shape took, graphs' memory included."""
        if self.name == "cuda":
            self.torch.cuda.empty_cache()

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream if self.name == "cuda" else None

    def seconds(self, call, times):
        self.wait()
        start = time.perf_counter()
        for i in range(times):
            call(i)
        self.wait()
        return (time.perf_counter() - start) / times

    def prepare(self, call, sets, captured):
        """Timed repetitions, ready to be called: of a CUDA graph where the call can be captured, so that the host's work
        between calls does not count."""
        self.seconds(call, sets)
        times = max(sets, min(500, int(3e-3 / self.seconds(call, sets)) + 1))
        if self.name == "cpu":
            return Timed("host", lambda: self.seconds(call, times) * 1e3)
        return Timed.on_gpu(self, call, times, captured)

    def graph(self, run):
        """A CUDA graph of what run() does on the current stream."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            run()
        return graph


class Timed:
    """Milliseconds of a call: one repetition of many."""

    def __init__(self, kind, measure):
        self.kind, self.measure = kind, measure

    def __call__(self):
        return self.measure()

    @staticmethod
    def on_gpu(device, call, times, captured):
        def run():
            for i in range(times):
                call(i)

        once = device.graph(run).replay if captured else run
        once()
        start, end = (device.torch.cuda.Event(enable_timing=True) for _ in range(2))

        def measure():
            start.record()
            once()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / times

        return Timed("graph" if captured else "stream", measure)


def inputs(device, shape, least_bytes):
    """Sets of q, k, v and out, (B, S, H, D) in memory: so many that none is still in a cache when its turn comes again."""
    batch, heads, kv_heads, rows, keys, dim, dtype, _ = shape
    count = 2 if device.name == "cpu" else max(1, min(MOST_SETS, -(-LEAST_BYTES // least_bytes)))
    generator = device.torch.Generator(device.name).manual_seed(1)

    def random(rows, heads):
        values = device.torch.randn(batch, rows, heads, dim, generator=generator, device=device.name)
        return values.to(device.dtype(dtype))

    return [(random(rows, heads), random(keys, kv_heads), random(keys, kv_heads), random(rows, heads)) for _ in range(count)]


class Ours:
    """libfa, an op for each set of inputs, with a workspace."""

    def __init__(self, device, library, shape, sets):
        view = lambda t: (t.data_ptr(), t.shape, t.stride())
        self.device, self.outs, self.calls, self.kept = device, [out for *_, out in sets], [], []
        for tensors in sets:
            call = libfa.Attention(library, shape[6], shape[7], 0, *map(view, tensors), device=device.name)
            size = call.workspace_bytes
            if size:
                self.kept.append(device.torch.empty(size + 256, dtype=device.torch.uint8, device=device.name))
                call.use_workspace(-(-self.kept[-1].data_ptr() // 256) * 256, size)
            self.calls.append(call)
        self.facts = {"kernel": self.calls[0].kernel, "workspace": size}

    def __call__(self, i):
        self.calls[i % len(self.calls)](self.device.stream())
        return self.outs[i % len(self.outs)]


class Theirs:
    """One backend of torch, and no other in its place."""

    def __init__(self, device, backend, shape, sets):
        from torch.nn.attention import sdpa_kernel

        self.sdpa, self.backend, self.kernel = device.torch.nn.functional.scaled_dot_product_attention, backend, sdpa_kernel
        self.sets = [[tensor.transpose(1, 2) for tensor in tensors[:3]] for tensors in sets]
        self.options = {"is_causal": shape[7], "enable_gqa": shape[1] != shape[2]}
        self.facts = {}

    def __call__(self, i):
        with self.kernel(self.backend):
            return self.sdpa(*self.sets[i % len(self.sets)], **self.options).transpose(1, 2)


def contenders(device, library, shape):
    """Name -> what makes its calls on sets of inputs. On a CPU, torch's own there."""
    from torch.nn.attention import SDPBackend

    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    if device.name == "cpu":
        backends = {"math": SDPBackend.MATH, "cudnn": SDPBackend.CUDNN_ATTENTION}
    theirs = lambda backend: lambda sets: Theirs(device, backend, shape, sets)
    return {"libfa": lambda sets: Ours(device, library, shape, sets), **{name: theirs(one) for name, one in backends.items()}}


def error_of(device, call, sets, shape):
    """|out - reference| / |reference| of the last set, over up to 256 rows at either end of the first and last head. What
    was in out before is no number, so that an element which is not written shows."""
    torch = device.torch
    _, heads, kv_heads, rows, keys, dim, _, causal = shape
    last = len(sets) - 1
    q, k, v, out = sets[last]
    out.fill_(float("nan"))
    result = call(last)
    device.wait()
    if not bool(torch.isfinite(result).all()):
        return float("nan")
    difference = norm = 0.0
    for batch, head in {(0, 0), (q.shape[0] - 1, heads - 1)}:
        kv_head = head * kv_heads // heads
        for chosen in [slice(0, min(256, rows)), slice(max(0, rows - 256), rows)]:
            scores = q[batch, chosen, head].double() @ k[batch, :, kv_head].double().T / dim**0.5
            if causal:
                row = torch.arange(rows, device=device.name)[chosen, None]
                scores.masked_fill_(torch.arange(keys, device=device.name)[None] > row, float("-inf"))
            expected = scores.softmax(-1) @ v[batch, :, kv_head].double()
            difference += float((result[batch, chosen, head].double() - expected).square().sum())
            norm += float(expected.square().sum())
    return (difference / norm) ** 0.5

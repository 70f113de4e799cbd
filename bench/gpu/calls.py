"""The contenders of gpu_sdpa.py as calls that are alike: on which of several sets of inputs, and nothing else to choose."""
import time
import typing

import libfa

CONTENDERS = ("libfa", "cudnn", "flash", "efficient")
LEAST_BYTES = 200 << 20  # that the sets of inputs together have: several times the second-level cache
MOST_SETS = 32


class Shape(typing.NamedTuple):
    """A call: tensors' sizes, and its options."""

    B: int
    Hq: int
    Hkv: int
    Sq: int
    Sk: int
    D: int
    dtype: str
    causal: bool
    Dv: int = 0  # 0: as D
    page: int = 0  # tokens of one; 0: keys are contiguous, as they always are for torch
    gradients: str = ""  # of q, k and v, summed in a "fixed" order or in "any"

    @property
    def columns_v(self):
        return self.Dv or self.D

    def __str__(self):
        dim = f"{self.D}/{self.Dv}" if self.Dv else self.D
        words = ["causal"] * self.causal + [f"pages of {self.page}"] * bool(self.page)
        words += [f"gradients in {'a fixed' if self.gradients == 'fixed' else 'any'} order"] * bool(self.gradients)
        return ", ".join([f"{self.B} x {self.Hq}/{self.Hkv} x {self.Sq}/{self.Sk} x {dim} {self.dtype}", *words])


class Failed(Exception):
    """A contender that does not support a shape, or computes it wrongly."""


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
        """Gives back the memory of the last shape, graphs' included."""
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
            return Timed("host", lambda: self.seconds(call, times) * 1e3, call)
        return Timed.on_gpu(self, call, times, captured)

    def graph(self, run):
        """A CUDA graph of the work of run() on the current stream."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            run()
        return graph


class Timed:
    """Milliseconds of a call: one repetition of many. It keeps the call, whose memory a graph uses without owning it."""

    def __init__(self, kind, measure, call):
        self.kind, self.measure, self.call = kind, measure, call

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

        return Timed("graph" if captured else "stream", measure, call)


def inputs(device, shape, least_bytes):
    """Sets of q, k, v and out, (B, S, H, D) in memory: enough sets that none is cached when it is used again."""
    count = 2 if device.name == "cpu" else max(1, min(MOST_SETS, -(-LEAST_BYTES // least_bytes)))
    generator = device.torch.Generator(device.name).manual_seed(1)

    def random(rows, heads, dim):
        values = device.torch.randn(shape.B, rows, heads, dim, generator=generator, device=device.name)
        return values.to(device.dtype(shape.dtype))

    s = shape
    return [(random(s.Sq, s.Hq, s.D), random(s.Sk, s.Hkv, s.D), random(s.Sk, s.Hkv, s.columns_v), random(s.Sq, s.Hq, s.columns_v))
            for _ in range(count)]


def view(tensor):
    """As libfa.py takes it."""
    return tensor.data_ptr(), tensor.shape, tensor.stride()


def workspace(device, call):
    """Gives a call its workspace: the memory, and its size."""
    size = call.workspace_bytes
    memory = device.torch.empty(size + 256, dtype=device.torch.uint8, device=device.name)
    if size:
        call.use_workspace(-(-memory.data_ptr() // 256) * 256, size)
    return memory, size


def paged(device, shape, k, v):
    """Pools of k's and v's pages in no order, and the table that says which is where."""
    order = device.torch.randperm(shape.B * shape.Sk // shape.page, device=device.name)
    pools = []
    for tensor in (k, v):
        pages = tensor.reshape(-1, shape.page, *tensor.shape[2:])
        pools.append(device.torch.empty_like(pages))
        pools[-1][order] = pages
    return *pools, order.to(device.torch.int32).reshape(shape.B, -1, 1, 1)


class Ours:
    """libfa, an op for each set of inputs, with a workspace."""

    def __init__(self, device, library, shape, sets):
        self.device, self.outs, self.calls, self.kept = device, [out for *_, out in sets], [], []
        for q, k, v, out in sets:
            pages = None
            if shape.page:
                k, v, table = paged(device, shape, k, v)
                self.kept += [k, v, table]
                pages = view(table)
            call = libfa.Attention(library, shape.dtype, shape.causal, 0, *map(view, (q, k, v, out)), device=device.name, pages=pages)
            memory, size = workspace(device, call)
            self.kept.append(memory)
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
        self.options = {"is_causal": shape.causal, "enable_gqa": shape.Hq != shape.Hkv}
        self.facts = {}

    def __call__(self, i):
        with self.kernel(self.backend):
            return self.sdpa(*self.sets[i % len(self.sets)], **self.options).transpose(1, 2)


def backends_of(device):
    """Torch's, by name. On a CPU, its own there."""
    from torch.nn.attention import SDPBackend

    if device.name == "cpu":
        return {"math": SDPBackend.MATH, "cudnn": SDPBackend.CUDNN_ATTENTION}
    return {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def contenders(device, library, shape):
    """Name -> the maker of its calls on sets of inputs."""
    theirs = lambda backend: lambda sets: Theirs(device, backend, shape, sets)
    return {"libfa": lambda sets: Ours(device, library, shape, sets), **{name: theirs(one) for name, one in backends_of(device).items()}}


def error_of(device, call, sets, shape):
    """|out - reference| / |reference| of the last set, over up to 256 rows at either end of the first and last head. out was NaN
    before, so that an element which is not written shows."""
    torch = device.torch
    heads, kv_heads, rows, keys, dim, causal = shape.Hq, shape.Hkv, shape.Sq, shape.Sk, shape.D, shape.causal
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

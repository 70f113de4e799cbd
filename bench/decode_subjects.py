"""The subjects of decode_peers.py: one decode step on the same caches by libfa and its peers, and a plain read of them."""
import ctypes as c
from dataclasses import dataclass

import decode_ggml
import libfa
import ml_dtypes
import numpy
import onnx
import onnxruntime
import torch
from decode_ggml import huge_pages
from torch.nn.functional import scaled_dot_product_attention

NUMPY = {"f32": numpy.float32, "f16": numpy.float16, "bf16": ml_dtypes.bfloat16}
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ONNX = {"f32": onnx.TensorProto.FLOAT, "f16": onnx.TensorProto.FLOAT16}  # bf16 has no kernel on the CPU

@dataclass(frozen=True)
class Shape:
    dtype: str
    heads: int  # of k and v
    group: int  # heads of q for each
    keys: int
    head_dim: int
    threads: int

    @property
    def kv(self):
        return self.heads, self.keys, self.head_dim

    @property
    def q(self):
        return self.heads, self.group, self.head_dim


class Caches:
    """Pairs of k and v in huge pages, one after another, which have `least_bytes` or more; all subjects read the same memory."""

    def __init__(self, shape, least_bytes):
        self.shape = shape
        element = numpy.dtype(NUMPY[shape.dtype])
        elements = shape.heads * shape.keys * shape.head_dim
        self.bytes = 2 * elements * element.itemsize  # of one pair
        count = max(2, -(-least_bytes // self.bytes))
        self.pairs = huge_pages(count * self.bytes).view(element).reshape(count, 2, *shape.kv)
        random = numpy.random.default_rng(1)
        self.q = random.standard_normal(shape.q, dtype=numpy.float32).astype(element)
        row = random.standard_normal((2, shape.heads, shape.keys, shape.head_dim), dtype=numpy.float32).astype(element)
        self.pairs[:] = row

    def __len__(self):
        return len(self.pairs)


def address(array):
    return array.ctypes.data


class Read:
    def __init__(self, build, threads):
        self.library = c.CDLL(build / "bench" / "libfa_bench_read.so")
        self.library.fa_bench_read.argtypes = [c.c_void_p, c.c_size_t, c.c_int]
        self.library.fa_bench_cold_bytes.restype = c.c_size_t
        self.cold_bytes, self.threads = self.library.fa_bench_cold_bytes, threads

    def __call__(self, caches):
        spans = [address(pair) for pair in caches.pairs]
        return lambda i: self.library.fa_bench_read(spans[i], caches.bytes, self.threads)


class Libfa:
    def __init__(self, build):
        self.library = libfa.Library(build / "src" / "libfa.so")

    def __call__(self, caches):
        shape, out = caches.shape, numpy.empty_like(caches.q)
        d = shape.head_dim
        rows = lambda data, heads, keys, row, head: (address(data), (1, keys, heads, d), (heads * keys * d, row, head, 1))
        q = rows(caches.q, shape.heads * shape.group, 1, d, d)
        view = lambda data: rows(data, shape.heads, shape.keys, d, shape.keys * d)
        to = rows(out, shape.heads * shape.group, 1, d, d)
        calls = [libfa.Attention(self.library, shape.dtype, False, shape.threads, q, view(k), view(v), to) for k, v in caches.pairs]

        def step(i):
            calls[i]()
            return out

        return step


class Torch:
    """The heads of a group as the queries of one head, the form of the problem in which torch reads every key once."""

    def __init__(self, threads):
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def __call__(self, caches):
        kind = TORCH[caches.shape.dtype]
        tensor = lambda array: torch.from_numpy(array.view(numpy.uint8)).view(kind)[None]
        q, pairs = tensor(caches.q), [[tensor(each) for each in pair] for pair in caches.pairs]
        return lambda i: scaled_dot_product_attention(q, *pairs[i])[0].float()


class OnnxRuntime:
    """GroupQueryAttention, whose new token takes the last place of the cache; past and present are the same memory."""

    def __init__(self, threads):
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads

    def __call__(self, caches):
        shape = caches.shape
        if shape.dtype not in ONNX:
            return None
        session = onnxruntime.InferenceSession(self.model(shape), self.options, providers=["CPUExecutionProvider"])
        heads, keys, dim = shape.kv
        out = numpy.empty((1, 1, heads * shape.group * dim), caches.q.dtype)
        lengths = [numpy.array([keys - 1], numpy.int32), numpy.array([keys], numpy.int32)]
        bindings, last = [], []
        for k, v in caches.pairs:
            last += [k[:, -1].copy(), v[:, -1].copy()]
            binding = session.io_binding()
            bind = lambda name, array, dims: binding.bind_input(name, "cpu", 0, array.dtype.type, dims, address(array))
            bind("query", caches.q, out.shape)
            bind("key", last[-2], (1, 1, heads * dim))
            bind("value", last[-1], (1, 1, heads * dim))
            bind("seqlens_k", lengths[0], (1,))
            bind("total_sequence_length", lengths[1], (1,))
            for name, array in (("key", k), ("value", v)):
                bind("past_" + name, array, (1, *shape.kv))
                binding.bind_output("present_" + name, "cpu", 0, array.dtype.type, (1, *shape.kv), address(array))
            binding.bind_output("output", "cpu", 0, out.dtype.type, out.shape, address(out))
            bindings.append(binding)

        def step(i):
            session.run_with_iobinding(bindings[i])
            return out.reshape(shape.q)

        step.keeps = caches, last, lengths
        return step

    @staticmethod
    def model(shape):
        heads, keys, dim = shape.kv
        value = lambda name, dims, kind=ONNX[shape.dtype]: onnx.helper.make_tensor_value_info(name, kind, dims)
        cache = [1, heads, keys, dim]
        inputs = [value("query", [1, 1, heads * shape.group * dim]), value("key", [1, 1, heads * dim]), value("value", [1, 1, heads * dim])]
        inputs += [value("past_key", cache), value("past_value", cache)]
        inputs += [value(name, [1], onnx.TensorProto.INT32) for name in ("seqlens_k", "total_sequence_length")]
        outputs = [value("output", [1, 1, heads * shape.group * dim]), value("present_key", cache), value("present_value", cache)]
        node = onnx.helper.make_node("GroupQueryAttention", [each.name for each in inputs], [each.name for each in outputs],
                                     domain="com.microsoft", num_heads=heads * shape.group, kv_num_heads=heads)
        graph = onnx.helper.make_graph([node], "decode", inputs, outputs)
        opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


class Peers(dict):
    """{name: subject}: a subject makes, for some caches, the function that takes the step on number i of them, or None where it
    has no kernel for their type."""

    def __init__(self, build, environment, threads):
        self.read, ggml = Read(build, threads), decode_ggml.Ggml(environment / "ggml", threads)
        super().__init__(read=self.read, libfa=Libfa(build), ggml=ggml, onnxruntime=OnnxRuntime(threads), torch=Torch(threads))
        with open("/proc/cpuinfo") as file:
            name = next(line for line in file if line.startswith("model name")).split(": ")[1].strip()
        capability = torch.backends.cpu.get_cpu_capability()
        self.description = (f"{name}; {self['libfa'].library.handle.fa_build_info().decode()}; ggml's {ggml.variant}; "
                            f"onnxruntime {onnxruntime.__version__}; torch {torch.__version__} ({capability})")

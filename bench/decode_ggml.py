"""ggml through ctypes, as far as a decode step needs it: https://github.com/ggml-org/ggml, include/ggml.h and ggml-cpu.h."""
import ctypes as c
import mmap

import numpy

TYPES = {"f32": 0, "f16": 1, "bf16": 30}
HUGE_PAGE = 2 << 20


def huge_pages(size):
    """Bytes in huge pages, where the system has them."""
    memory = mmap.mmap(-1, size + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    data = numpy.frombuffer(memory, numpy.uint8)
    return data[-data.ctypes.data % HUGE_PAGE :][:size]


class InitParams(c.Structure):
    _fields_ = [("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool)]


class Plan(c.Structure):
    _fields_ = [("work_size", c.c_size_t), ("work_data", c.c_void_p), ("n_threads", c.c_int), ("threadpool", c.c_void_p),
                ("rest", c.c_void_p * 8)]  # more than any version has


class ThreadpoolParams(c.Structure):
    _fields_ = [("cpumask", c.c_bool * 512), ("n_threads", c.c_int), ("prio", c.c_int), ("poll", c.c_uint32),
                ("strict_cpu", c.c_bool), ("paused", c.c_bool)]


class Ggml:
    def __init__(self, folder, threads):
        self.base = c.CDLL(folder / "libggml-base.so", mode=c.RTLD_GLOBAL)
        self.cpu, self.variant = self.best_variant(folder)
        pointers = ["ggml_init", "ggml_new_tensor_4d", "ggml_flash_attn_ext", "ggml_new_graph", "ggml_get_data"]
        for name in pointers:
            getattr(self.base, name).restype = c.c_void_p
        self.base.ggml_init.argtypes = [InitParams]
        self.base.ggml_new_tensor_4d.argtypes = [c.c_void_p, c.c_int] + 4 * [c.c_int64]
        self.base.ggml_flash_attn_ext.argtypes = 5 * [c.c_void_p] + 3 * [c.c_float]
        self.base.ggml_new_graph.argtypes = self.base.ggml_get_data.argtypes = [c.c_void_p]
        self.base.ggml_build_forward_expand.argtypes = [c.c_void_p, c.c_void_p]
        self.cpu.ggml_graph_plan.restype = Plan
        self.cpu.ggml_graph_plan.argtypes = [c.c_void_p, c.c_int, c.c_void_p]
        self.cpu.ggml_graph_compute.argtypes = [c.c_void_p, c.POINTER(Plan)]
        self.cpu.ggml_threadpool_new.restype = c.c_void_p
        self.cpu.ggml_threadpool_new.argtypes = [c.POINTER(ThreadpoolParams)]
        self.base.ggml_threadpool_params_default.restype = ThreadpoolParams
        self.base.ggml_threadpool_params_default.argtypes = [c.c_int]
        self.cpu.ggml_cpu_init()
        self.threads = threads
        self.threadpool = self.cpu.ggml_threadpool_new(self.base.ggml_threadpool_params_default(threads))

    @staticmethod
    def best_variant(folder):
        """The library for this processor, by the scores that ggml chooses by, and its name."""
        libraries = [(c.CDLL(path), path.stem) for path in sorted(folder.glob("libggml-cpu-*.so"))]
        return max(libraries, key=lambda each: each[0].ggml_backend_score())

    def tensor(self, context, kind, *sizes):
        tensor = self.base.ggml_new_tensor_4d(context, kind, *sizes)
        size = numpy.prod(sizes) * (4 if kind == TYPES["f32"] else 2)
        data = (c.c_uint8 * int(size)).from_address(self.base.ggml_get_data(tensor))
        return tensor, numpy.frombuffer(data, numpy.uint8)

    def __call__(self, caches):
        shape = caches.shape
        heads, keys, dim = shape.kv
        memory = huge_pages(len(caches) * (caches.bytes + (1 << 20)) + (16 << 20))
        context = self.base.ggml_init(InitParams(memory.size, memory.ctypes.data, False))
        q, q_data = self.tensor(context, TYPES["f32"], dim, 1, heads * shape.group, 1)
        q_data[:] = caches.q.astype(numpy.float32).reshape(-1).view(numpy.uint8)
        steps = [self.step(context, q, pair, shape) for pair in caches.pairs]

        def step(i):
            graph, plan, _, out = steps[i]
            self.cpu.ggml_graph_compute(graph, c.byref(plan))
            return out.view(numpy.float32).reshape(shape.q)

        step.keeps = memory
        return step

    def step(self, context, q, pair, shape):
        heads, keys, dim = shape.kv
        inputs = []
        for array in pair:
            tensor, data = self.tensor(context, TYPES[shape.dtype], dim, keys, heads, 1)
            data[:] = array.reshape(-1).view(numpy.uint8)
            inputs.append(tensor)
        result = self.base.ggml_flash_attn_ext(context, q, *inputs, None, dim**-0.5, 0.0, 0.0)
        graph = self.base.ggml_new_graph(context)
        self.base.ggml_build_forward_expand(graph, result)
        plan = self.cpu.ggml_graph_plan(graph, self.threads, self.threadpool)
        work = numpy.empty(plan.work_size, numpy.uint8)
        plan.work_data = work.ctypes.data
        out = (c.c_uint8 * (shape.heads * shape.group * dim * 4)).from_address(self.base.ggml_get_data(result))
        return graph, plan, work, numpy.frombuffer(out, numpy.uint8)

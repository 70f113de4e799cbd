"""FlashAttention 4 by CuTe DSL, without torch, compared with numpy: fa4.py PACKAGES compile|run FILE DIM CAUSAL PAIRS.

compile writes the kernel's PTX to FILE; run launches it through the host code that CuTe DSL makes, which writes
the tensor maps by itself. PACKAGES is where fa4.txt is installed; PAIRS is 1 for products of two blocks."""

import ctypes
import importlib.machinery
import math
import os
import pathlib
import site
import sys
import types

packages, mode, file = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
dim, causal, pairs = int(sys.argv[4]), sys.argv[5] == "1", sys.argv[6] == "1"
made = file.with_suffix(".made")
made.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("FA_EMU_DEVICE", "sm_100a:sms=4")
os.environ.update(CUTE_DSL_ARCH="sm_100a", CUTE_DSL_KEEP_PTX="1", CUTE_DSL_DUMP_DIR=str(made), CUTE_DSL_NO_CACHE="1")
site.addsitedir(packages)
sys.path.append(str(pathlib.Path(__file__).parent.parent))

import numpy as np
import tvm_ffi  # which does without torch, but not with the absent one below


class Absent(types.ModuleType):
    """A module of which only names are used, in annotations and tables of types."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class WithoutTorch:
    """Imports torch and its modules as absent ones."""

    def find_spec(self, name, _path=None, _target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torch" else None

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


def without_init(name):
    """Makes a package whose __init__, which needs torch, does not run."""
    package = types.ModuleType(name)
    package.__path__ = [str(pathlib.Path(packages, *name.split(".")))]
    sys.modules[name] = package


sys.meta_path.append(WithoutTorch())
without_init("flash_attn.cute")
without_init("quack")

import cuda.bindings.driver as cu
import cuda.bindings.runtime as runtime
import cutlass
import device
import quack.dsl  # tensors' operators, which the kernel uses
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.cute.runtime import make_ptr
from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Compiled
from flash_attn.cute.flash_fwd_sm100 import FlashAttentionForwardSm100

HEADS, KV_HEADS = 2, 1
LENGTH = 512 if pairs else 384 if causal else 640  # keys and queries
kernel = FlashAttentionForwardSm100(
    dim, qhead_per_kvhead=HEADS // KV_HEADS, is_causal=causal, is_static_persistent=not causal, use_2cta_instrs=pairs
)


@cute.jit
def attention(
    q: cute.Pointer,
    k: cute.Pointer,
    v: cute.Pointer,
    o: cute.Pointer,
    lse: cute.Pointer,
    batch: Int32,
    length: Int32,
    scale: Float32,
    stream: cu.CUstream,
):
    """One call, of tensors without gaps."""

    def tensor(at, heads):
        row = Int64(heads * dim)
        return cute.make_tensor(at, cute.make_layout((batch, length, heads, dim), stride=(row * length, row, Int64(dim), 1)))

    sums = cute.make_layout((batch, HEADS, length), stride=(Int64(HEADS) * length, Int64(length), 1))
    inputs = (tensor(q, HEADS), tensor(k, KV_HEADS), tensor(v, KV_HEADS))
    kernel(*inputs, tensor(o, HEADS), cute.make_tensor(lse, sums), scale, stream=stream)


def pointer(address, element=BFloat16):
    return make_ptr(element, address, cute.AddressSpace.gmem, assumed_align=16)


def load(function):
    """In place of Compiled._load_cuda_library: loads FILE, as PTX, instead of machine code."""
    library = device.ok(runtime.cudaLibraryLoadData(file.read_bytes() + b"\0", None, None, 0, None, None, 0))
    _, load_to_device = function._get_cuda_init_and_load()
    handle = ctypes.pointer(ctypes.c_void_p(int(library)))
    status = ctypes.c_int32(0)
    values = (handle, ctypes.c_int32(0), status)
    arguments = (ctypes.c_void_p * 3)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
    load_to_device(arguments)
    if status.value:
        raise RuntimeError(f"CuTe DSL could not load {file}: error {status.value}")
    return [runtime.cudaLibrary_t(handle.contents.value)]


def bf16(values):
    """Rounded to nearest even: 16 bits each."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def run(compiled):
    """Whether output and logarithms of the sums are right."""
    rng = np.random.default_rng(1)
    q, k, v = (bf16(rng.standard_normal((2, LENGTH, heads, dim))) for heads in (HEADS, KV_HEADS, KV_HEADS))
    inputs = [device.Array.of(one) for one in (q, k, v)]
    output, sums = device.Array(q.shape, np.uint16), device.Array((2, HEADS, LENGTH), np.float32)
    scale = 1 / math.sqrt(dim)
    compiled(*(pointer(int(one.at)) for one in (*inputs, output)), pointer(int(sums.at), Float32), 2, LENGTH, scale, cu.CUstream(0))
    device.ok(cu.cuCtxSynchronize())
    q, k, v = f32(q), np.repeat(f32(k), HEADS, 2), np.repeat(f32(v), HEADS, 2)
    scores = np.einsum("blhd,bmhd->bhlm", q, k) * scale
    if causal:
        scores = np.where(np.tri(LENGTH, dtype=bool), scores, -np.inf)
    highest = scores.max(-1, keepdims=True)
    shares = np.exp(scores - highest)
    total = shares.sum(-1, keepdims=True)
    good = device.close("output", f32(output.host()), np.einsum("bhlm,bmhd->blhd", shares / total, v), 2e-2)
    return device.close("lse", sums.host(), (highest + np.log(total))[..., 0], 1e-3) and good


device.Device()  # CuTe DSL asks it how many SMs it has, for kernels whose blocks stay
compiled = cute.compile(attention, *[pointer(0)] * 4, pointer(0, Float32), 1, 1, 1.0, cu.CUstream(0))
if mode == "compile":
    (ptx,) = made.glob("*.ptx")
    file.write_bytes(ptx.read_bytes().rstrip(b"\0"))
else:
    Compiled._load_cuda_library = load
    device.finish(run(compiled))

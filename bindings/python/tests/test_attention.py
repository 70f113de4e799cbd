"""libfa.attention on all kinds of arrays: numpy, buffers, anything with DLPack; outputs of the same kind, in place."""

import array
import copy
import ctypes
import os
import pickle
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest
import reference

import libfa
from libfa import capi


def inputs(shape=(2, 9, 4, 16), keys=21, kv_heads=2, dtype="f4", seed=1):
    rng = np.random.default_rng(seed)
    batch, _, _, dim = shape
    return [rng.standard_normal(s).astype(dtype) for s in (shape, (batch, keys, kv_heads, dim), (batch, keys, kv_heads, dim))]


TOLERANCE = {"f4": 2e-6, "f2": 2e-3, ml_dtypes.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_numpy(dtype):
    q, k, v = inputs(dtype=dtype)
    out = libfa.attention(q, k, v, causal=True)
    assert type(out) is np.ndarray and out.dtype == q.dtype and out.shape == q.shape
    assert abs(out.astype("f8") - reference.attention(q, k, v, causal=True)[0]).max() < TOLERANCE[dtype]


def test_the_logarithm_of_the_sum():
    q, k, v = inputs()
    out, lse = libfa.attention(q, k, v, return_lse=True)
    assert lse.shape == (2, 4, 9) and lse.dtype == np.float32
    assert abs(lse - reference.attention(q, k, v)[1]).max() < 1e-5
    own = np.zeros((2, 4, 9), "f4")
    assert libfa.attention(q, k, v, lse=own, return_lse=True)[1] is own and (own == lse).all()


def test_heads_first():
    q, k, v = inputs()
    want = libfa.attention(q, k, v)
    turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    out = libfa.attention(*turned, layout="bhsd")
    assert out.shape == turned[0].shape and (out.transpose(0, 2, 1, 3) == want).all()


def test_out_and_its_type():
    q, k, v = inputs(dtype="f2")
    wide = libfa.attention(q, k, v, out_dtype="float32")
    assert wide.dtype == np.float32
    assert (libfa.attention(q, k, v, out_dtype=np.dtype("f4")) == wide).all()
    own = np.empty(q.shape, "f4")
    assert libfa.attention(q, k, v, out=own) is own and (own == wide).all()


def test_packed_sequences():
    q, k, v = (x[0] for x in inputs((1, 12, 4, 16), keys=12))
    ends = [0, 5, 12]
    out, lse = libfa.attention(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=np.array(ends, "i4"), causal=True, return_lse=True)
    assert out.shape == q.shape and lse.shape == (4, 12)
    for begin, end in zip(ends, ends[1:]):
        part = slice(begin, end)
        want, want_lse = reference.attention(q[None, part], k[None, part], v[None, part], causal=True)
        assert abs(out[part] - want[0]).max() < 2e-6
        assert abs(lse[:, part] - want_lse[0]).max() < 1e-5


def test_features_that_take_tensors():
    q, k, v = inputs()
    rng = np.random.default_rng(2)
    bias, mask = rng.standard_normal((4, 9, 21)).astype("f4"), rng.random((9, 21)) < 0.7
    slopes, sinks = rng.random(4).astype("f4"), rng.standard_normal(4).astype("f4")
    out = libfa.attention(q, k, v, bias=bias, mask=mask, alibi_slopes=slopes, sinks=sinks, softcap=3.0, softmax_scale=0.3)
    want, _ = reference.attention(q, k, v, bias=bias, mask=mask, slopes=slopes, sinks=sinks, softcap=3.0, scale=0.3)
    assert abs(out - want).max() < 2e-6


def scalar(value):
    """A number as callers have it: of numpy, and an array without dimensions."""
    kind = "f4" if isinstance(value, float) else "?" if isinstance(value, bool) else "i8"
    return [np.dtype(kind).type(value), np.array(value, kind)]


@pytest.mark.parametrize("way", [0, 1], ids=["scalar", "array"])
def test_numbers_of_numpy(way):
    q, k, v = inputs()
    plain = dict(
        causal=True,
        window=(7, 0),
        attention_chunk=16,
        softcap=2.0,
        softmax_scale=0.25,
        max_seqlen_q=9,
        max_seqlen_k=21,
        num_splits=2,
    )
    given = {
        name: tuple(scalar(side)[way] for side in x) if isinstance(x, tuple) else scalar(x)[way] for name, x in plain.items()
    }
    want = libfa.attention(q, k, v, num_threads=1, **plain)
    assert (libfa.attention(q, k, v, num_threads=scalar(1)[way], **given) == want).all()
    assert (libfa.attention(q, k, v, num_threads=1, **{**given, "window": np.array([7, 0])}) == want).all()
    assert not (libfa.attention(q, k, v, num_threads=1, **{**given, "softmax_scale": scalar(0.5)[way]}) == want).all()


def test_a_number_that_changes_is_read_anew():
    q, k, v = inputs()
    scale = np.array(0.25)
    before = libfa.attention(q, k, v, softmax_scale=scale)
    scale[()] = 0.5
    assert (libfa.attention(q, k, v, softmax_scale=scale) == libfa.attention(q, k, v, softmax_scale=0.5)).all()
    assert not (libfa.attention(q, k, v, softmax_scale=scale) == before).all()


def test_the_buffer_protocol():
    q, k, v = inputs()
    buffers = [memoryview(x.tobytes()).cast("f", x.shape) for x in (q, k, v)]  # read-only
    out = libfa.attention(*buffers)
    assert type(out) is memoryview and out.format == "f" and out.shape == q.shape
    assert (np.asarray(out) == libfa.attention(q, k, v)).all()
    numbers = array.array("f", bytes(4 * q.size))
    libfa.attention(*buffers, out=memoryview(numbers).cast("B").cast("f", q.shape))
    assert (np.array(numbers).reshape(q.shape) == np.asarray(out)).all()


class Fake:
    """An array of a library that only speaks DLPack; on a device of any type."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def test_anything_with_dlpack():
    q, k, v = inputs()
    out = np.empty_like(q)
    fakes = [Fake(x) for x in (q, k, v, out)]
    assert libfa.attention(*fakes[:3], out=fakes[3]) is fakes[3]
    assert (out == libfa.attention(q, k, v)).all()
    with pytest.raises(TypeError, match="pass out="):
        libfa.attention(*fakes[:3])
    with pytest.raises(BufferError, match="DLPack type 8"):
        libfa.attention(Fake(q, (8, 0)), k, v)


class OnDevice:
    """An array that says it lives on a CUDA device."""

    def __init__(self, array, stream=None):
        self.__cuda_array_interface__ = {**array.__array_interface__, "stream": stream, "version": 3}


def test_an_array_on_a_device_is_not_taken_for_the_cpus():
    q, k, v = inputs()
    with pytest.raises(libfa.InvalidArgument, match="k: lives on the CPU, expected q's CUDA device 0"):
        libfa.attention(OnDevice(q), k, v)
    with pytest.raises(TypeError, match="pass out="):
        libfa.attention(OnDevice(q), OnDevice(k), OnDevice(v))


def test_the_stream_that_an_interface_names():
    stream = libfa.arrays.Adapter().stream
    assert [stream(OnDevice(inputs()[0], x)) for x in (None, 1, 2, 0x7F0012345678)] == [0, 1, 2, 0x7F0012345678]
    with pytest.raises(BufferError, match="names stream 0; expected None, 1, 2"):
        stream(OnDevice(inputs()[0], 0))


def test_no_device_for_arrays_on_one():
    code = (
        "import ctypes, libfa, numpy\n"
        "class Array:\n"
        "    def __init__(self):\n"
        "        self.__cuda_array_interface__ = dict(data=(4096, False), shape=(1, 4, 2, 8), typestr='<f4', version=3)\n"
        "try: libfa.attention(Array(), Array(), Array(), out=Array())\n"
        "except (libfa.NoDevice, libfa.Unsupported) as error: print('error:', error)\n"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # on a machine that has one
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("error:") and len(done.stdout) > 10, done.stderr


def test_reads_views_without_copies():
    q, k, v = inputs()
    packed = np.ascontiguousarray(np.stack([q[:, :, :2], k[:, :9], v[:, :9]], axis=2))
    views = [packed[:, :, i] for i in range(3)]
    assert (libfa.attention(*views) == libfa.attention(*(x.copy() for x in views))).all()
    assert (libfa.attention(q[:, ::-1], k, v) == libfa.attention(q, k, v)[:, ::-1]).all()
    for x in (q, k, v):
        x.flags.writeable = False
    assert libfa.attention(q, k, v).flags.writeable


def test_empty():
    q, k, v = inputs()
    assert libfa.attention(q[:0], k[:0], v[:0]).shape == (0, 9, 4, 16)
    assert (libfa.attention(q, k[:, :0], v[:, :0]) == 0).all()


def test_an_op_of_ones_own():
    q, k, v = inputs()
    out = np.empty_like(q)
    args = capi.fa_forward_args()
    for name, x in (("q", q), ("k", k), ("v", v), ("out", out)):
        address, strides = x.__array_interface__["data"][0], tuple(s // 4 for s in x.strides)
        setattr(args, name, (address, capi.FA_F32, x.shape, strides))
    with libfa.Op(dtype_q=capi.FA_F32, head_dim=16) as op:
        assert op.kernel.startswith("cpu.") and op.workspace_size(args) >= 0
        op.forward(args)
    assert (out == libfa.attention(q, k, v)).all()
    for use in (lambda: op.forward(args), lambda: op.kernel, lambda: op.workspace_size(args)):
        with pytest.raises(libfa.InvalidArgument, match="closed"):
            use()
    op.close()


@pytest.mark.parametrize("dtype", ["float16", capi.FA_F16, np.dtype("float16")], ids=["name", "number", "dtype"])
def test_an_op_by_names(dtype):
    op = libfa.Op(head_dim=16, dtype_q=dtype, dtype_out="float32", softmax_scale=np.float32(0.25), window_left=np.int64(3))
    fields = "head_dim=16, dtype_q=float16, dtype_out=float32, softmax_scale=0.25, window_left=3"
    assert repr(op) == f"<libfa.Op {fields}: {op.kernel}>"
    twin, other = pickle.loads(pickle.dumps(op)), copy.copy(op)
    assert repr(twin) == repr(other) == repr(op) and len({id(x.handle) for x in (op, twin, other)}) == 3
    op.close()
    assert repr(op) == f"<libfa.Op {fields}: closed>" and twin.kernel
    with pytest.raises(libfa.InvalidArgument, match="closed"):
        pickle.dumps(op)


def test_an_op_that_cannot_be_pickled():
    lent = libfa.Op(
        head_dim=16, dtype_q="float32", parallel_for=ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
    )
    with pytest.raises(TypeError, match="parallel_for"):
        pickle.dumps(lent)


def test_threads_lent_through_parallel_for():
    calls = []
    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, task, ctypes.c_void_p, ctypes.c_int64)
    def parallel_for(host, run, context, count):
        calls.append((host, count))
        for i in range(count):
            run(context, i)

    q, k, v = inputs((2, 300, 4, 16), keys=300)
    lent = (ctypes.cast(parallel_for, ctypes.c_void_p).value, 77)
    out = libfa.attention(q, k, v, parallel_for=lent, num_threads=2)
    assert (out == libfa.attention(q, k, v)).all()
    assert calls and all(host == 77 and 1 <= count <= 2 for host, count in calls)


def test_the_gil_is_released():
    """Two calls can only return when both are inside at once: each waits for the other in a barrier, which is their
    parallel_for (it computes nothing). With the GIL held, neither would get there."""
    code = """
import ctypes, threading, libfa
c = ctypes.CDLL(None)
barrier = ctypes.create_string_buffer(64)
c.pthread_barrier_init(barrier, None, 2)
lent = (ctypes.cast(c.pthread_barrier_wait, ctypes.c_void_p).value, ctypes.addressof(barrier))
def call():
    x = memoryview(bytes(4 * 400 * 64)).cast('f', (1, 400, 4, 16))
    libfa.attention(x, x, x, parallel_for=lent, num_threads=2)
threads = [threading.Thread(target=call) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print('both')
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "both", done.stderr


def test_many_threads_and_one_op():
    q, k, v = inputs()
    want, wrong = libfa.attention(q, k, v), []

    def work():
        for _ in range(200):
            if not (libfa.attention(q, k, v) == want).all():
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_imports_nothing_that_the_caller_did_not():
    known = "numpy ml_dtypes torch jax cupy transformers"
    code = f"import sys, libfa, libfa.flash_attn; print([m for m in {known.split()} if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"
    code = (
        "import sys, libfa; x = memoryview(bytes(4 * 64)).cast('f', (1, 4, 2, 8)); libfa.attention(x, x, x);"
        f"print([m for m in {known.split()} if m in sys.modules])"
    )
    assert python(code).stdout.strip() == "[]"


def test_messages_go_to_a_callable():
    code = (
        "import os; os.environ['FA_VERBOSE'] = 'dispatch'; import libfa, libfa.capi as c;"
        "lines = []; c.fa_set_log(lines.append); libfa.Op(dtype_q=c.FA_F32, head_dim=8); c.fa_set_log(None);"
        "assert any('cpu.' in line for line in lines), lines"
    )
    done = python(code)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_python_m_libfa_into_a_pipe_that_closes():
    """As `python -m libfa | head -1` does it: no traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "libfa"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == "" and done.returncode == 0


def test_python_m_libfa():
    done = subprocess.run([sys.executable, "-m", "libfa"], capture_output=True, text=True)
    assert done.returncode == 0 and libfa.__version__ in done.stdout and "cpu.generic" in done.stdout

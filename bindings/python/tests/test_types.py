"""The type hints: mypy --strict finds nothing in the package, in a client, nor in legal calls, and each planted mistake."""

import os
import subprocess
import sys

from conftest import SOURCE

import libfa
from libfa import options

HERE = SOURCE / "bindings" / "python"

HEAD = """
import numpy, numpy.typing, libfa, libfa.jax, libfa.torch
from libfa import capi, flash_attn
x = numpy.zeros((1, 4, 2, 8), "float32")
flag = bool(x.size)
"""

MISTAKES = """
libfa.attention(1, x, x)
libfa.attention(x, x)
libfa.attention(x, x, x, windows=(1, 2))
libfa.attention(x, x, x, causal="left")
libfa.attention(x, x, x, layout="sbhd")
libfa.attention(x, x, x, window=4)
libfa.attention(x, x, x, window=(1, 2, 3))
libfa.attention(x, x, x, softmax_scale="1")
libfa.attention(x, x, x, num_splits=1.5)
libfa.attention(x, x, x, seqused_k=3)
libfa.attention(x, x, x, out_dtype="float8")
libfa.attention(x, x, x, out=x, out_dtype="float8")
libfa.attention(x, x, x).lse
libfa.attention(x, x, x, return_lse=True).shape
a, b, c = libfa.attention(x, x, x, out=x, return_lse=True)
libfa.backward(x, x, x, x, x)
libfa.backward(x, x, x, x, x, x, dq=1)
libfa.backward(x, x, x, x, x, x, block_table=x)
libfa.backward(x, x, x, x, x, x, accumulate=1)
libfa.backward(x, x, x, x, x, x).dx
libfa.append(x, x, x)
libfa.append(x, x, x, x, cache_seqlens=3)
libfa.append(x, x, x, x, rotary_interleaved=1)
libfa.append(x, x, x, x, rotary_cosine=x)
libfa.torch.attention(x, x, x, out=x)
libfa.torch.attention(x, x, x, causal="left")
libfa.torch.scaled_dot_product_attention(x, x, x, is_causal="yes")
libfa.jax.attention(x, x, x, causal="left")
libfa.jax.attention(x, x, x, layout="bhsd")
flash_attn.flash_attn_func(x, x, x, causal="top_left")
flash_attn.flash_attn_func(1, x, x)
flash_attn.flash_attn_func(x, x, x, window_size=4)
flash_attn.flash_attn_varlen_func(x, x, x, x, x, "4", 4)
flash_attn.flash_attn_with_kvcache(x, x, x, cache_seqlens=1.5)
libfa.Op(3)
libfa.Op(head_dim=8)
libfa.Op(head_dim="8", dtype_q="float32")
libfa.Op(head_dim=8, dtype_q="float8")
libfa.Op(head_dims=8, head_dim=8, dtype_q="float32")
libfa.Op(head_dim=8, dtype_q="float32").forward(x)
capi.fa_create(3)
"""

LEGAL = """
y: numpy.typing.NDArray[numpy.float32] = libfa.attention(x, x, x, causal="top_left", window=(numpy.int64(1), 2))
y, lse = libfa.attention(x, x, x, softcap=numpy.float32(1), seqused_k=[3], cu_seqlens_q=x, return_lse=True)
either = libfa.attention(x, x, x, return_lse=flag)
half = libfa.attention(x, x, x, out_dtype="float16").astype("float32")
half = libfa.attention(x, x, x, out_dtype=numpy.dtype("float16"))
m = libfa.attention(memoryview(b""), memoryview(b""), memoryview(b"")).nbytes
y = libfa.attention(memoryview(b""), memoryview(b""), memoryview(b""), out=y)
found = libfa.backward(x, x, x, None, x, x, delta=x, causal=True, dq=x, dk=False, dbias=True, bias=x, accumulate=("dq",))
y = found.dv
y = libfa.append(x, None, x, None, q=x, rotary_cos=x, rotary_sin=x, rotary_tail=flag, cache_seqlens=[3], max_seqlen_new=4)
y = flash_attn.flash_attn_func(x, x, x, window_size=(numpy.int64(1), 2))
y, lse, dmask = flash_attn.flash_attn_func(x, x, x, return_attn_probs=True)
y = flash_attn.flash_attn_with_kvcache(x, x, x, cache_seqlens=3)
y = libfa.jax.attention(x, x, x, causal=True, bias=x)
kernel: str = libfa.Op(head_dim=8, dtype_q=capi.FA_F32, dtype_out="float16").kernel
"""


def mypy(tmp_path, *files):
    """The lines of mypy --strict that name an error."""
    config = SOURCE / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--strict", f"--config-file={config}", f"--cache-dir={tmp_path}"]
    environment = {**os.environ, "MYPYPATH": str(HERE)}
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, env=environment)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def test_the_package_a_client_and_legal_calls(tmp_path):
    legal = tmp_path / "legal.py"
    legal.write_text(HEAD + LEGAL)
    assert mypy(tmp_path, HERE / "libfa", HERE / "tests" / "client.py", legal) == []


def test_every_mistake_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(HEAD + MISTAKES)
    found = {int(line.split(":")[1]) for line in mypy(tmp_path, wrong)}
    lines = (HEAD + MISTAKES).splitlines()
    missed = [line for number, line in enumerate(lines, 1) if number > HEAD.count("\n") + 1 and number not in found]
    assert missed == []
    assert all(number > HEAD.count("\n") for number in found)


def test_the_types_have_every_keyword():
    """A keyword of attention() that the types lack would be refused by a type checker."""
    own = {"q", "k", "v", "out", "out_dtype", "return_lse", "return"}
    assert set(libfa.attention.__annotations__) - own == set(options.MemoryOptions.__annotations__)
    forward_alone = {"lse", "block_table", "num_splits", "dtype_k", "dtype_v", "k_scale", "v_scale", "k_zero", "v_zero"}
    forward_alone |= {"tree_mask", "tree_depth", "k_rope", "hadamard_k", "hadamard_v"}
    assert set(options.MemoryOptions.__annotations__) - forward_alone == set(options.GradientOptions.__annotations__)
    fields = {name for name in dir(libfa.capi.fa_desc) if not name.startswith("_")} - {
        "struct_size",
        "reserved",
        "this",
        "thisown",
    }
    assert fields == set(options.Desc.__annotations__)


def test_the_client_runs():
    done = subprocess.run([sys.executable, str(HERE / "tests" / "client.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "cpu." in done.stdout, done.stderr

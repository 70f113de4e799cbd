"""Attention of MiniLM's first and last layer on real paragraphs, packed without padding: libfa's results against
double-precision results in the same folder as the inputs.

python minilm_attention.py [FOLDER]     the library's examples/data
"""

import pathlib
import sys

import numpy

import libfa

default = pathlib.Path(__file__).resolve().parents[3] / "examples" / "data"
folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default

ends = numpy.load(folder / "cu_seqlens.npy")
print(f"{len(ends) - 1} paragraphs of {min(numpy.diff(ends))} to {max(numpy.diff(ends))} tokens")
for layer in (0, 5):
    q, k, v, want = (numpy.load(folder / f"layer{layer}_{name}.npy") for name in ("q", "k", "v", "out"))
    out = libfa.attention(q, k, v, cu_seqlens_q=ends, cu_seqlens_k=ends, out_dtype="float32")
    error = abs(out - want).max()
    print(f"layer {layer}: {q.shape[-2]} heads of {q.shape[-1]}, largest error {error:.1e}")
    assert error < 1e-5

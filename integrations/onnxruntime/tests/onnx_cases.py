"""ONNX's own node cases of Attention, by libfa in a stock ONNX Runtime: those that are taken give Y and the caches within ONNX's tolerance
(bfloat16: two units in the last place, as ONNX's own output has been rounded at every step), and the others are counted by reason.

Usage: onnx_cases.py LIBONNXRUNTIME_FA
"""
import collections
import os
import subprocess
import sys

import numpy as np

import stock

stock.fetch_or_skip()
import ml_dtypes  # noqa: E402
from onnx import TensorProto  # noqa: E402

EXPECTED = {"taken": 75, "left": 18}  # of the pinned version


def cases():
    from onnx.backend.test.case.node import _NodeTestCases, attention  # noqa: F401 (makes the cases)
    return [case for case in _NodeTestCases if case.model.graph.node[0].op_type == "Attention"]


def run(library):
    devices, counts = stock.register(library), collections.Counter()
    for case in cases():
        given, expected = case.data_sets[0]
        graph = case.model.graph
        feeds = dict(zip([value.name for value in graph.input], given, strict=True))
        try:
            session = stock.session(case.model.SerializeToString(), devices)
        except Exception as error:  # left by libfa, and no kernel of ONNX Runtime has its type
            counts["left"] += 1
            print("left, and not implemented by ONNX Runtime:", case.name, str(error)[:150])
            continue
        if stock.taken(session) == 0:
            counts["left"] += 1
            continue
        counts["taken"] += 1
        if any(x.dtype == ml_dtypes.bfloat16 for x in given):
            import onnxruntime as ort
            feeds = {name: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view("u2"), TensorProto.BFLOAT16)
                     if x.dtype == ml_dtypes.bfloat16 else ort.OrtValue.ortvalue_from_numpy(x) for name, x in feeds.items()}
            results = session.run_with_ort_values([value.name for value in graph.output], feeds)
            results = [as_numpy(result, want) for result, want in zip(results, expected, strict=True)]
        else:
            results = session.run(None, feeds)
        for result, want in zip(results, expected, strict=True):
            bf16 = want.dtype == ml_dtypes.bfloat16
            relative = 2 * float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps) if bf16 else case.rtol
            np.testing.assert_allclose(result.astype("f8"), want.astype("f8"), rtol=relative, atol=case.atol, err_msg=case.name)
    print(dict(counts))
    if stock.VERSION == stock.USUAL:
        assert counts == EXPECTED, f"expected {EXPECTED}"


def as_numpy(value, want):
    """The contents of an OrtValue of bfloat16, for which ONNX Runtime's Python has no array."""
    import ctypes
    size = want.size * want.itemsize
    return np.frombuffer(ctypes.string_at(value.data_ptr(), size), want.dtype).reshape(want.shape)


def reasons(library):
    """The lines of FA_VERBOSE=1: one for each reason."""
    if os.environ.get("FA_VERBOSE"):
        return
    program = [sys.executable, "-B", __file__, library]
    done = subprocess.run(program, capture_output=True, text=True, env={**os.environ, "FA_VERBOSE": "1"})
    lines = [line for line in done.stderr.splitlines() if "is left to ONNX Runtime" in line]
    assert lines and all("it returns scores (qk_matmul_output)" in line for line in lines), lines


if __name__ == "__main__":
    run(sys.argv[1])
    reasons(sys.argv[1])

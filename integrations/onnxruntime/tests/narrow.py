"""Random nodes of types that ONNX Runtime has no kernel for on the CPU, by libfa, against ONNX Runtime's float32 kernel on the same numbers:
com.microsoft's operators in bfloat16, and GroupQueryAttention over caches of float8e4m3fn.

Usage: narrow.py LIBONNXRUNTIME_FA [COUNT [SEED]]; without a count 120 nodes
"""
import collections
import ctypes
import sys

import numpy as np

import stock

stock.fetch_or_skip()
import ml_dtypes  # noqa: E402
import nodes  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto  # noqa: E402

NUMPY = {TensorProto.BFLOAT16: ml_dtypes.bfloat16, TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT: np.float32}


def value_of(array):
    for element, of in NUMPY.items():
        if array.dtype == of and array.dtype != np.float32:
            return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(f"u{array.itemsize}"), element)
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def run(session, model, feeds):
    """The results as float32; ONNX Runtime's Python has no arrays of the narrow types."""
    values = {name: value_of(np.ascontiguousarray(array)) for name, array in feeds.items()}
    results = []
    for value, output in zip(session.run_with_ort_values([o.name for o in model.graph.output], values), model.graph.output):
        of = np.dtype(NUMPY[output.type.tensor_type.elem_type])
        shape = value.shape()
        data = ctypes.string_at(value.data_ptr(), int(np.prod(shape)) * of.itemsize)
        results.append(np.frombuffer(data, of).reshape(shape).astype("f4"))
    return results


def in_bf16(r, x, model):
    """The node of bfloat16, the one of float32, and the inputs of each, which are the same numbers."""
    narrow = onnx.load_from_string(model.SerializeToString())
    for value in [*narrow.graph.input, *narrow.graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    ours = {name: array.astype(ml_dtypes.bfloat16) if array.dtype == "f4" else array for name, array in x.items()}
    return narrow, ours, model, {name: array.astype("f4") if array.dtype == ml_dtypes.bfloat16 else array for name, array in ours.items()}


def over_float8(r, x, model):
    """The same for a node with a cache of int8: its codes become those of float8, and its new keys and values such numbers."""
    kinds = {attribute.name: attribute for attribute in model.graph.node[0].attribute}
    heads, kv_heads = kinds["num_heads"].i, kinds["kv_num_heads"].i
    narrow, wide = (onnx.load_from_string(model.SerializeToString()) for _ in range(2))
    ours, theirs = dict(x), {name: array for name, array in x.items() if not name.endswith("_scale")}
    dim = x["past_key"].shape[-1]
    for i, part in enumerate(("key", "value")):
        scale = x[f"{part[0]}_scale"]
        codes = r.normal("f4", *x[f"past_{part}"].shape) * 40
        ours[f"past_{part}"] = codes.astype(ml_dtypes.float8_e4m3fn)
        theirs[f"past_{part}"] = ours[f"past_{part}"].astype("f4") * scale
        of_row = np.broadcast_to(scale.reshape(-1, dim) if scale.size > 1 else scale, (kv_heads, dim)).reshape(-1)
        first = (heads + i * kv_heads) * dim
        name, columns = ("query", slice(first, first + kv_heads * dim)) if "key" not in x else (part, slice(None))
        given = ours[name].copy()
        given[..., columns] = (given[..., columns] / of_row).astype(ml_dtypes.float8_e4m3fn).astype("f4") * of_row
        ours[name] = theirs[name] = given
    for each, element in (narrow, TensorProto.FLOAT8E4M3FN), (wide, TensorProto.FLOAT):
        for value in [*each.graph.input, *each.graph.output]:
            if value.type.tensor_type.elem_type == TensorProto.INT8:
                value.type.tensor_type.elem_type = element
    node = wide.graph.node[0]
    inputs = ["" if name.endswith("_scale") else name for name in node.input]
    attributes = [each for each in node.attribute if "quant" not in each.name and each.name != "kv_cache_bit_width"]
    del node.input[:], node.attribute[:]
    node.input.extend(inputs)
    node.attribute.extend(attributes)
    kept = [value for value in wide.graph.input if not value.name.endswith("_scale")]
    del wide.graph.input[:]
    wide.graph.input.extend(kept)
    return narrow, ours, wide, theirs, {"present_key": x["k_scale"], "present_value": x["v_scale"]}


def compare(library, count=120, seed=0):
    onnxruntime.set_default_logger_severity(4)
    devices, seen, worst, i = stock.register(library), collections.Counter(), collections.Counter(), seed
    while sum(seen.values()) < count:
        i += 1
        r = nodes.Random(i)
        make = [nodes.group_query, nodes.multi_head][i % 2]
        built, x, kind = make(r)
        x = {name: array for name, array in x.items() if array is not None}
        if kind != "f4" or "bias" in x and make is nodes.multi_head:
            continue
        codes = {array.dtype.str[1:] for name, array in x.items() if name.startswith("past")} - {"f4"}
        if codes and (codes != {"i1"} or "cos" in x):
            continue
        narrow, ours, wide, theirs, *scales = (over_float8 if codes else in_bf16)(r, x, onnx.load_from_string(built))
        session = stock.session(narrow.SerializeToString(), devices)
        assert stock.taken(session) == 1, f"node {i}, {make.__name__}"
        try:
            expected = nodes.used(run(stock.session(wide.SerializeToString()), wide, theirs), x)
        except Exception as error:
            assert "past_value" in str(error), error
            continue
        results = run(session, narrow, ours)
        for j, output in enumerate(narrow.graph.output):
            if scales and output.name in scales[0]:
                results[j] = results[j] * scales[0][output.name]
        case = f"{make.__name__}, {'float8' if codes else 'bf16'}"
        apart = max(nodes.difference(a, b) for a, b in zip(nodes.used(results, x), expected, strict=True))
        assert apart < (1e-5 if codes else 2**-5), f"node {i}, {case}: {apart}, { {n: a.shape for n, a in x.items()} }"
        seen[case] += 1
        worst[case] = max(worst[case], apart)
    print("compared:", dict(seen), "largest differences:", dict(worst))


if __name__ == "__main__":
    compare(sys.argv[1], *map(int, sys.argv[2:]))

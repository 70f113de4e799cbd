"""A small Llama of random weights (GroupQueryAttention with rotary embedding, past and present in one buffer): the same greedy tokens by
libfa and by ONNX Runtime's own kernel, from caches of f32 and of int8.

Usage: model.py LIBONNXRUNTIME_FA
"""
import sys

import numpy as np

import stock

stock.fetch_or_skip()
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

LAYERS, HEADS, KV_HEADS, DIM, VOCABULARY, ROOM = 3, 8, 2, 32, 500, 128
WIDTH = HEADS * DIM


def build(int8):
    r = np.random.default_rng(3)
    weights, graph_nodes, inputs, outputs = [], [], [], []

    def weight(name, array):
        weights.append(numpy_helper.from_array(array.astype("f4"), name))
        return name

    def node(op, given, result, domain="", **attributes):
        graph_nodes.append(helper.make_node(op, given, result if isinstance(result, list) else [result], domain=domain, **attributes))
        return result

    def matrix(name, rows, columns):
        return weight(name, r.standard_normal((rows, columns)) / rows**0.5)

    cache = TensorProto.INT8 if int8 else TensorProto.FLOAT
    angles = np.arange(ROOM)[:, None] / 10000 ** (np.arange(DIM // 2) / (DIM // 2))
    cos, sin = weight("cos", np.cos(angles)), weight("sin", np.sin(angles))
    scale = weight("scale", np.array([4 / 127]))
    x = node("Gather", [matrix("embedding", VOCABULARY, WIDTH), "tokens"], "x0")
    for i in range(LAYERS):
        norm = node("SimplifiedLayerNormalization", [x, weight(f"norm{i}", np.ones(WIDTH))], f"n{i}", epsilon=1e-5)
        q, k, v = (node("MatMul", [norm, matrix(f"w{part}{i}", WIDTH, heads * DIM)], f"{part}{i}")
                   for part, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)))
        given = [q, k, v, f"past_key{i}", f"past_value{i}", "last", "total", cos, sin]
        if int8:
            given += ["", "", "", scale, scale]
        quantised = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8} if int8 else {}
        node("GroupQueryAttention", given, [f"a{i}", f"present_key{i}", f"present_value{i}"], "com.microsoft", num_heads=HEADS,
             kv_num_heads=KV_HEADS, do_rotary=1, **quantised)
        o = node("MatMul", [f"a{i}", matrix(f"wo{i}", WIDTH, WIDTH)], f"o{i}")
        x = node("Add", [x, o], f"x{i + 1}")
        for kind in "key", "value":
            shape = [1, KV_HEADS, ROOM, DIM]
            inputs.append(helper.make_tensor_value_info(f"past_{kind}{i}", cache, shape))
            outputs.append(helper.make_tensor_value_info(f"present_{kind}{i}", cache, shape))
    norm = node("SimplifiedLayerNormalization", [x, weight("norm", np.ones(WIDTH))], "n", epsilon=1e-5)
    node("MatMul", [norm, matrix("head", WIDTH, VOCABULARY)], "logits")
    inputs += [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "rows"]),
               *(helper.make_tensor_value_info(name, TensorProto.INT32, [1]) for name in ("last", "total"))]
    outputs.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, "rows", VOCABULARY]))
    graph = helper.make_graph(graph_nodes, "llama", inputs, outputs, weights)
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()


def generate(session, prompt, count, int8):
    import onnxruntime as ort
    shape = (1, KV_HEADS, ROOM, DIM)
    caches = {f"{kind}{i}": ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, "i1" if int8 else "f4"))
              for kind in ("key", "value") for i in range(LAYERS)}
    tokens, fresh, logits = list(prompt), list(prompt), []
    for _ in range(count):
        binding = session.io_binding()
        binding.bind_cpu_input("tokens", np.array([fresh]))
        binding.bind_cpu_input("last", np.array([len(tokens) - 1], "i4"))
        binding.bind_cpu_input("total", np.array([len(tokens)], "i4"))
        for name, value in caches.items():
            binding.bind_ortvalue_input(f"past_{name}", value)
            binding.bind_ortvalue_output(f"present_{name}", value)
        binding.bind_output("logits")
        session.run_with_iobinding(binding)
        result = next(o for o in (v.numpy() for v in binding.get_outputs()) if o.ndim == 3)
        logits.append(result[0, -1])
        fresh = [int(logits[-1].argmax())]
        tokens += fresh
    return tokens, np.array(logits)


if __name__ == "__main__":
    devices = stock.register(sys.argv[1])
    for int8 in False, True:
        built, prompt = build(int8), np.random.default_rng(7).integers(0, VOCABULARY, 24).tolist()
        ours = stock.session(built, devices)
        assert stock.taken(ours) == LAYERS, stock.taken(ours)
        a, b = (generate(session, prompt, 60, int8) for session in (ours, stock.session(built)))
        apart = float(np.abs(a[1] - b[1]).max()) if a[0] == b[0] else None
        print("int8" if int8 else "f32", "the same tokens" if a[0] == b[0] else f"other tokens: {a[0]}, {b[0]}", "logits apart:", apart)
        assert a[0] == b[0] and apart < (0.05 if int8 else 1e-3)

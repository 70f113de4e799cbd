"""GroupQueryAttention of 32 heads over 8 of 64 elements, with rotary embedding and one buffer for past and present: times of ONNX
Runtime's own kernel and of libfa alternately, the least of each, in milliseconds.

Usage: speed.py LIBONNXRUNTIME_FA [TURNS]
"""
import sys
import time

import numpy as np

import stock

stock.fetch_or_skip()
import nodes  # noqa: E402

HEADS, KV_HEADS, DIM = 32, 8, 64


def prepare(kind, rows, past):
    import onnxruntime as ort
    r, total = nodes.Random(1), rows + past
    q8, kind = kind == "i1", "f4" if kind == "i1" else kind
    x = dict.fromkeys("query key value past_key past_value seqlens_k total cos sin positions bias sink k_scale v_scale".split())
    x["query"] = r.normal(kind, 1, rows, HEADS * DIM)
    x["key"], x["value"] = r.normal(kind, 1, rows, KV_HEADS * DIM), r.normal(kind, 1, rows, KV_HEADS * DIM)
    for name in "past_key", "past_value":
        x[name] = r.normal(kind, 1, KV_HEADS, total, DIM)
        if q8:
            x[name] = np.clip(x[name] * 40, -127, 127).astype("i1")
    x["seqlens_k"], x["total"] = np.array([total - 1], "i4"), np.array([total], "i4")
    angles = r.generator.uniform(-4, 4, (total, DIM // 2))
    x["cos"], x["sin"] = np.cos(angles).astype(kind), np.sin(angles).astype(kind)
    attributes = {"do_rotary": 1}
    if q8:
        x["k_scale"] = x["v_scale"] = np.array([0.025], "f4")
        attributes |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    outputs = [("output", kind), ("present_key", "i1" if q8 else kind), ("present_value", "i1" if q8 else kind)]
    built = nodes.model("GroupQueryAttention", "com.microsoft", x, outputs, num_heads=HEADS, kv_num_heads=KV_HEADS, **attributes)
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in x.items() if array is not None}
    return built, values


def bind(session, values):
    binding = session.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name in "key", "value":
        binding.bind_ortvalue_output(f"present_{name}", values[f"past_{name}"])
    binding.bind_output("output")
    return binding


def run(library, turns):
    devices = stock.register(library)
    print("| cache | queries | keys | threads | ONNX Runtime | libfa | times as fast |\n|---|---|---|---|---|---|---|")
    for kind, name in ("f4", "f32"), ("f2", "f16"), ("i1", "int8"):
        for rows, past in (512, 0), (2048, 0), (1, 2047), (1, 8191), (1, 32767):
            built, values = prepare(kind, rows, past)
            for threads in 1, 2:
                ways = [(s, bind(s, values)) for s in (stock.session(built, None, threads), stock.session(built, devices, threads))]
                least = [1e9, 1e9]
                for turn in range((turns if rows > 1 else 10 * turns) + 1):
                    for i, (session, binding) in enumerate(ways):
                        start = time.perf_counter()
                        session.run_with_iobinding(binding)
                        if turn:
                            least[i] = min(least[i], 1e3 * (time.perf_counter() - start))
                times = f"{least[0]:.2f} | {least[1]:.2f} | {least[0] / least[1]:.2f}"
                print(f"| {name} | {rows} | {rows + past} | {threads} | {times} |", flush=True)


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)

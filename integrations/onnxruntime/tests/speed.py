"""Times of ONNX Runtime's own kernels and of libfa's in one run, one call of each alternately: medians in milliseconds, of a process's
CPU time with one thread, else of the clock. 32 query heads of 64 elements over 8, of MultiHeadAttention over 32.

Usage: speed.py LIBONNXRUNTIME_FA [--operators NAME,...] [--caches f32,f16,int8,int4] [--shapes QUERIESxKEYS,...] [--threads N]
                [--seconds N] [--json FILE]

group_query    GroupQueryAttention with rotary embedding, past and present in one buffer
multi_head     MultiHeadAttention, unidirectional, without a past, or with one that each call joins with the new keys
attention      ONNX's Attention 23, causal, likewise
nonpad         ONNX's Attention 24 over a cache of the caller, whose used rows nonpad_kv_seqlen has

--seconds      for each row of the table (2); --json: rows of this file that have the same shape are replaced
"""
import argparse
import json
import pathlib
import statistics
import time

import numpy as np

import stock

stock.fetch_or_skip()
import nodes  # noqa: E402

HEADS, KV_HEADS, DIM = 32, 8, 64
TYPES = {"f32": "f4", "f16": "f2", "int8": "i1", "int4": "u1"}


def cache_of(r, kind, *shape):
    """Random numbers, or codes of them."""
    if kind == "u1":
        return r.generator.integers(0, 256, (*shape[:-1], shape[-1] // 2)).astype("u1")
    return r.generator.integers(-127, 128, shape).astype("i1") if kind == "i1" else r.normal(kind, *shape)


def group_query(r, cached, rows, keys):
    kind = "f4" if cached in ("i1", "u1") else cached
    x = {"query": r.normal(kind, 1, rows, HEADS * DIM)}
    x |= {name: r.normal(kind, 1, rows, KV_HEADS * DIM) for name in ("key", "value")}
    x |= {name: cache_of(r, cached, 1, KV_HEADS, keys, DIM) for name in ("past_key", "past_value")}
    x["seqlens_k"], x["total"] = np.array([keys - 1], "i4"), np.array([keys], "i4")
    angles = r.generator.uniform(-4, 4, (keys, DIM // 2))
    x |= {"cos": np.cos(angles).astype(kind), "sin": np.sin(angles).astype(kind)}
    more = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1}
    if kind != cached:
        bits = 4 if cached == "u1" else 8
        x |= {"positions": None, "bias": None, "sink": None} | {name: np.array([3 / 2 ** (bits - 1)], "f4") for name in ("k_scale", "v_scale")}
        more |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": bits}
    outputs = [("output", kind), ("present_key", cached), ("present_value", cached)]
    return nodes.model("GroupQueryAttention", "com.microsoft", x, outputs, **more), x


def multi_head(r, kind, rows, keys):
    past = keys - rows
    x = {name: r.normal(kind, 1, rows, HEADS * DIM) for name in ("query", "key", "value")} | {"bias": None, "padding": None, "added": None}
    outputs = [("output", kind)]
    if past:
        x |= {name: r.normal(kind, 1, HEADS, past, DIM) for name in ("past_key", "past_value")}
        outputs += [("present_key", kind), ("present_value", kind)]
    return nodes.model("MultiHeadAttention", "com.microsoft", x, outputs, num_heads=HEADS, unidirectional=1), x


def attention(r, kind, rows, keys):
    past = keys - rows
    x = {"Q": r.normal(kind, 1, HEADS, rows, DIM)} | {name: r.normal(kind, 1, KV_HEADS, rows, DIM) for name in "KV"} | {"mask": None}
    outputs = [("Y", kind)]
    if past:
        x |= {name: r.normal(kind, 1, KV_HEADS, past, DIM) for name in ("past_key", "past_value")}
        outputs += [("present_key", kind), ("present_value", kind)]
    return nodes.model("Attention", "", x, outputs, 23, is_causal=int(rows > 1)), x


def nonpad(r, kind, rows, keys):
    x = {"Q": r.normal(kind, 1, HEADS, rows, DIM)} | {name: r.normal(kind, 1, KV_HEADS, keys, DIM) for name in "KV"}
    x |= {"mask": None, "past_key": None, "past_value": None, "nonpad": np.array([keys], "i8")}
    return nodes.model("Attention", "", x, [("Y", kind)], 24, is_causal=int(rows > 1)), x


OPERATORS = {make.__name__: make for make in (group_query, multi_head, attention, nonpad)}


def bind(session, values):
    binding = session.io_binding()
    names = [each.name for each in session.get_inputs()]
    for name in names:
        binding.bind_ortvalue_input(name, values[name])
    for each in session.get_outputs():
        past = each.name.replace("present", "past")
        if "total" in names and past in names:  # one buffer
            binding.bind_ortvalue_output(each.name, values[past])
        else:
            binding.bind_output(each.name)
    return binding


def measure(devices, built, x, options):
    """Median milliseconds of ONNX Runtime's kernel and of libfa's, and the largest difference of their results."""
    import onnxruntime as ort
    ways, results = [], []
    for taken in None, devices:
        values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in x.items() if array is not None}
        session = stock.session(built, taken, options.threads)
        assert stock.taken(session) == bool(taken)
        ways.append((session, bind(session, values)))
        session.run_with_iobinding(ways[-1][1])
        results.append(ways[-1][1].get_outputs()[0].numpy().astype("f8"))
    clock = time.process_time if options.threads == 1 else time.perf_counter
    times, end = ([], []), time.perf_counter() + options.seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for (session, binding), measured in zip(ways, times):
            start = clock()
            session.run_with_iobinding(binding)
            measured.append(1e3 * (clock() - start))
    return *map(statistics.median, times), float(np.abs(results[0] - results[1]).max())


def arguments():
    words = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--operators", type=words, default=list(OPERATORS))
    parser.add_argument("--caches", type=words, default=list(TYPES))
    parser.add_argument("--shapes", type=words, default=["512x512", "2048x2048", "1x2048", "1x8192", "1x32768"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def run(options):
    devices, rows = stock.register(options.library), []
    print("| operator | cache | queries x keys | ONNX Runtime, ms | libfa, ms | times as fast |\n|---|---|---|---|---|---|")
    for operator in options.operators:
        for cache in options.caches:
            if operator != "group_query" and cache in ("int8", "int4"):
                continue
            for shape in options.shapes:
                queries, keys = map(int, shape.split("x"))
                built, x = OPERATORS[operator](nodes.Random(1), TYPES[cache], queries, keys)
                try:
                    own, ours, difference = measure(devices, built, x, options)
                except Exception as error:  # ONNX Runtime's own kernel has fewer types
                    print(f"| {operator} | {cache} | {shape} | {str(error)[-120:]}")
                    continue
                print(f"| {operator} | {cache} | {shape} | {own:.2f} | {ours:.2f} | {own / ours:.2f} |", flush=True)
                rows.append({"operator": operator, "cache": cache, "queries": queries, "keys": keys, "threads": options.threads,
                             "onnxruntime_ms": round(own, 4), "libfa_ms": round(ours, 4), "ratio": round(own / ours, 3),
                             "difference": difference})
    if options.json:
        write(options.json, rows)


def write(path, rows):
    shape = lambda row: [row[name] for name in ("operator", "cache", "queries", "keys", "threads")]  # noqa: E731
    old = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in old if shape(row) not in map(shape, rows)] + rows
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    head = {"cpu": cpu, "onnxruntime": stock.VERSION, "heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM}
    path.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    run(arguments())
